#include "tests/lib/mix.h"
