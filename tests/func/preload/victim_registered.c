/*
 * Buffers registered with io_uring. The kernel holds the frames of these buffers and reads into them, so these pages
 * must not leave. After one buffer its own mapping continues. After the other one follows a mapping with other
 * protection.
 */
#include "victim.h"

#include <fcntl.h>
#include <liburing.h>

#define BUFFER MB

static int make_file(void)
{
	char name[] = "/var/tmp/victim-registered-XXXXXX";
	int fd = mkstemp(name);
	char *contents = map_memory(BUFFER);

	fill(contents, BUFFER, 1);
	if (fd >= 0)
		unlink(name);
	if (fd >= 0 && write(fd, contents, BUFFER) != (ssize_t)BUFFER) {
		close(fd);
		fd = -1;
	}
	munmap(contents, BUFFER);
	return fd;
}

static int read_registered(struct io_uring *ring, int file, char *buffer, unsigned index)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(ring);
	struct io_uring_cqe *done;
	int result;

	io_uring_prep_read_fixed(entry, file, buffer, BUFFER, 0, (int)index);
	io_uring_submit(ring);
	if (io_uring_wait_cqe(ring, &done))
		return -1;
	result = done->res;
	io_uring_cqe_seen(ring, done);
	return result;
}

int main(void)
{
	size_t size = victim_size();
	struct io_uring ring;
	int file = make_file();
	char *buffers = map_memory(4 * BUFFER), *memory = map_memory(size);
	const struct iovec registered[] = {{buffers, BUFFER}, {buffers + 2 * BUFFER, BUFFER}};

	if (file < 0 || io_uring_queue_init(4, &ring, 0))
		return tap_skip_all("no io_uring, or no file in /var/tmp");
	fill(memory, size, 2);
	memset(buffers, 1, 4 * BUFFER);
	mprotect(buffers + 3 * BUFFER, BUFFER, PROT_READ);
	ok(io_uring_register_buffers(&ring, registered, 2) == 0, "io_uring registers two buffers");
	for (uint64_t seed = 3; seed < 6; seed++)
		fill(memory, size, seed);
	for (unsigned i = 0; i < 2; i++) {
		const char *where = i ? "at the edge of its mapping" : "within its mapping";
		char *buffer = registered[i].iov_base;

		ok(read_registered(&ring, file, buffer, i) == (int)BUFFER,
		   "a read into a registered buffer %s succeeds", where);
		fill(memory, size, 6 + i);
		ok(wrong(buffer, BUFFER, 1, 0) == 0, "a registered buffer %s holds the data read (%zu pages wrong)",
		   where, wrong(buffer, BUFFER, 1, 0));
	}
	ok(wrong(memory, size, 7, 0) == 0, "memory outside the registered buffers keeps its contents");
	io_uring_queue_exit(&ring);
	return tap_done();
}
