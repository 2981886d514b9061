/* Fuzzes conversations with a donor. The donor never breaks a rule of its own, and never uses freed objects. */
#include "common/log.h"
#include "tests/unit/memserver/conversation.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int log_fd = -1;
	struct conversation_counts counts = {0};
	const char *wrong;

	if (log_fd < 0) {
		log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		log_set_fd(log_fd);
	}
	wrong = conversation_run(data, size, &counts);
	if (wrong) {
		fprintf(stderr, "%s\n", wrong);
		abort();
	}
	return 0;
}
