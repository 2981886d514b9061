#include "tests/lib/tap.h"
