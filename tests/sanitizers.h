#include "tests/lib/sanitizers.h"
