/*
 * Direct I/O into far memory. Several threads read with O_DIRECT into buffers with a guard page after them, while the
 * main thread evicts pages. The device writes into the frames of the buffers, so these pages must not leave.
 */
#include "victim.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#define READERS 4
#define BUFFER (512 * 1024ul)
#define FILE_BYTES (24 * BUFFER)

static int file = -1;
static _Atomic bool stop;
static _Atomic unsigned long reads, failed, wrong_pages;

static void read_once(char *buffer, uint64_t *random)
{
	*random = mix(*random);
	size_t offset = *random % (FILE_BYTES / BUFFER) * BUFFER;
	if (pread(file, buffer, BUFFER, (off_t)offset) != (ssize_t)BUFFER)
		failed++;
	reads++;
	wrong_pages += wrong(buffer, BUFFER, 1, offset);
}

static void *read_on(void *argument)
{
	uint64_t random = (uint64_t)(uintptr_t)argument;

	while (!stop) {
		char *buffer = map_memory(BUFFER + PAGE);

		mprotect(buffer + BUFFER, PAGE, PROT_READ);
		for (unsigned i = 0; i < 6 && !stop; i++) {
			memset(buffer, 0, BUFFER);
			read_once(buffer, &random);
		}
		munmap(buffer, BUFFER + PAGE);
	}
	return NULL;
}

static bool open_file(void)
{
	char name[] = "/var/tmp/victim-direct-XXXXXX";
	int fd = mkstemp(name);
	char *contents = map_memory(FILE_BYTES);

	fill(contents, FILE_BYTES, 1);
	bool good = fd >= 0 && write(fd, contents, FILE_BYTES) == (ssize_t)FILE_BYTES && fsync(fd) == 0;
	file = open(name, O_RDONLY | O_DIRECT);
	unlink(name);
	close(fd);
	munmap(contents, FILE_BYTES);
	return good && file >= 0;
}

int main(void)
{
	size_t size = victim_size();
	pthread_t readers[READERS];

	if (!open_file())
		return tap_skip_all("no O_DIRECT on /var/tmp");
	char *memory = map_memory(size);
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, read_on, (void *)(i + 1));
	/* Two rounds at least, because the second round brings in the pages that the first round evicted. */
	for (unsigned round = 0; round < 2 || reads < 400; round++)
		fill(memory, size, reads);
	stop = true;
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	ok(failed == 0, "O_DIRECT reads into far memory succeed (%lu of %lu failed)", failed, reads);
	ok(wrong_pages == 0, "memory holds what O_DIRECT reads brought (%lu pages wrong after %lu reads)", wrong_pages,
	   reads);
	return tap_done();
}
