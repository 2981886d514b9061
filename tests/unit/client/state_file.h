/* state_file: the state file in a memfd, for tests. An error ends the test. Threads: none. */
#ifndef TESTS_UNIT_CLIENT_STATE_FILE_H
#define TESTS_UNIT_CLIENT_STATE_FILE_H

#include "client/page/state.h"

struct state *state_file_open(int file);
/* Tries to adopt the store, and closes the file without emptying it. Returns the result of state_adopt(). */
int state_file_adopt(int file, const struct far_config *wanted);

#endif
