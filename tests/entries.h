#include "tests/lib/entries.h"
