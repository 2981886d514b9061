#include "tests/unit/client/state_file.h"

#include <stdio.h>
#include <stdlib.h>

struct state *state_file_open(int file)
{
	struct state *state;
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	if (state_open(path, &state) < 0)
		abort();
	return state;
}

int state_file_adopt(int file, const struct far_config *wanted)
{
	struct state *state = state_file_open(file);
	int status = state_adopt(state, wanted);

	state_close(state, false);
	return status;
}
