/* test_fuse: a block device by FUSE: its shape, what is read is what was written, by several threads and through the
   file itself, errors of the store, and its removal. */
#include "common/random.h"
#include "tests/tap.h"
#include "tests/unit/blockdev/fuse_device.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BYTES (64u << 20)
#define WRITERS 3u
#define STEPS 250u
#define LONGEST (256u << 10) /* more than one request of the kernel's */

static uint8_t *page_memory(size_t length)
{
	void *memory = NULL;

	if (posix_memalign(&memory, STORE_PAGE, length))
		abort();
	return memory;
}

static int open_device(const struct fuse_device *device, int flags)
{
	return open(device->device.path, O_RDWR | O_CLOEXEC | flags);
}

/* --- The shape ----------------------------------------------------------------------------------------------- */

static void test_shape(void)
{
	struct fuse_device device;
	uint64_t bytes = 0;
	int block = 0, fd;
	char text[32] = "";
	unsigned number = UINT32_MAX;

	ok(fuse_device_open(&device, BYTES, NULL) == 0 && fuse_device_start(&device, 0, 0) == 0, "a device is started");
	ok(sscanf(device.device.path, "/dev/loop%u", &number) == 1 && (int32_t)number == device.device.number,
	   "and says which it is");
	fd = open_device(&device, O_DIRECT);
	ok(fd >= 0 && ioctl(fd, BLKGETSIZE64, &bytes) == 0 && bytes == BYTES, "of the size of the disk");
	ok(ioctl(fd, BLKSSZGET, &block) == 0 && block == 4096, "in blocks of a page");
	close(fd);
	snprintf(text, sizeof text, "/sys/block/loop%u/loop/dio", number);
	fd = open(text, O_RDONLY);
	ok(fd >= 0 && read(fd, text, sizeof text) > 0 && text[0] == '1', "with direct I/O");
	close(fd);
	ok(frontend_fuse.remove(device.frontend) == 0, "it is removed");
	ok(fuse_device_close(&device), "and leaves nothing in its folder");
}

/* --- Contents ------------------------------------------------------------------------------------------------ */

/* A thread's own part of the disk, and what should be in it. */
struct writer {
	const char *path;
	uint64_t seed, begin, length;
	uint32_t unit;
	unsigned wrong, failed;
};

static uint32_t pick_length(struct random_state *random, uint32_t unit)
{
	uint32_t most = random_below(random, 4) ? 8 * unit : LONGEST;

	return unit * (1 + (uint32_t)random_below(random, most / unit));
}

static void *write_and_check(void *argument)
{
	struct writer *writer = argument;
	struct random_state random;
	uint8_t *reference = calloc(1, writer->length), *data = page_memory(LONGEST);
	int fd = open(writer->path, O_RDWR | O_DIRECT | O_CLOEXEC);

	random_seed(&random, writer->seed);
	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t length = pick_length(&random, writer->unit);
		uint64_t at = random_below(&random, (writer->length - length) / writer->unit) * writer->unit;
		uint64_t range[2] = {writer->begin + at, length};
		uint64_t kind = random_below(&random, 8);
		bool good;

		if (kind < 4) {
			for (uint32_t i = 0; i < length; i += 8) {
				uint64_t value = random_next(&random);
				memcpy(data + i, &value, 8);
			}
			good = pwrite(fd, data, length, (off_t)range[0]) == (ssize_t)length;
			memcpy(reference + at, data, length);
		} else if (kind == 4) {
			/* A block device knows the first, a file the second; both make zeroes here. */
			good = ioctl(fd, BLKDISCARD, range) == 0 ||
			       fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range[0], length) == 0;
			memset(reference + at, 0, length);
		} else if (kind == 5) {
			good = ioctl(fd, BLKZEROOUT, range) == 0 ||
			       fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, (off_t)range[0], length) == 0;
			memset(reference + at, 0, length);
		} else {
			good = pread(fd, data, length, (off_t)range[0]) == (ssize_t)length;
			writer->wrong += good && memcmp(data, reference + at, length) != 0;
		}
		writer->failed += !good;
	}
	writer->failed += fsync(fd) != 0;
	close(fd);
	free(reference);
	free(data);
	return NULL;
}

/* Threads, each in a part of its own, on @path. */
static void check_contents(const char *path, uint32_t unit, const char *what)
{
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	unsigned wrong = 0, failed = 0;

	for (unsigned i = 0; i < WRITERS; i++) {
		uint64_t length = BYTES / WRITERS / STORE_PAGE * STORE_PAGE;

		writers[i] = (struct writer){
		    .path = path, .seed = i + unit, .begin = i * length, .length = length, .unit = unit};
		pthread_create(&threads[i], NULL, write_and_check, &writers[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		pthread_join(threads[i], NULL);
		wrong += writers[i].wrong;
		failed += writers[i].failed;
	}
	ok(wrong == 0 && failed == 0, "%s: %u reads of other contents than written, %u requests failed", what, wrong,
	   failed);
}

/* Pages of the file in the kernel's cache; -1: this kernel does not tell (before 6.5). */
static int64_t cached_pages(const char *path)
{
	struct {
		uint64_t offset, length;
	} range = {0, 0};
	struct {
		uint64_t cached, dirty, writeback, evicted, recently;
	} counts = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long status = syscall(451 /* cachestat */, fd, &range, &counts, 0);

	close(fd);
	return status == 0 ? (int64_t)counts.cached : -1;
}

static void test_contents(unsigned queues, unsigned spin_us, const struct store_faults *faults)
{
	struct fuse_device device;
	struct store_stats stats;
	uint64_t all[2] = {0, BYTES};
	int64_t cached;
	int fd;

	if (!ok(fuse_device_open(&device, BYTES, faults) == 0 && fuse_device_start(&device, queues, spin_us) == 0,
		"a device of %u queues that poll for %u us%s", queues, spin_us, faults ? ", answers come late" : ""))
		return;
	check_contents(device.device.path, STORE_PAGE, "pages of the block device");
	fd = open_device(&device, O_DIRECT);
	ok(ioctl(fd, BLKDISCARD, all) == 0, "all of it is discarded");
	close(fd);
	store_stats(device.store, &stats);
	ok(stats.pages_live == 0, "and is held no more");
	check_contents(device.file, DISK_SECTOR, "sectors of the file under it");
	cached = cached_pages(device.file);
	if (cached < 0)
		tap_skip("the kernel caches nothing of the file", "no cachestat() before Linux 6.5");
	else
		ok(cached == 0, "the kernel caches %d pages of the file", (int)cached);
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device), "it is removed");
}

/* --- The file itself ----------------------------------------------------------------------------------------- */

static void test_file(void)
{
	struct fuse_device device;
	struct stat stat;
	uint8_t *data = page_memory(2 * STORE_PAGE);
	char other[160];
	int fd;

	fuse_device_open(&device, BYTES, NULL);
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a device, to open its file"))
		return;
	fd = open(device.file, O_RDWR | O_CLOEXEC);
	ok(fd >= 0 && fstat(fd, &stat) == 0 && stat.st_size == BYTES && (stat.st_mode & 07777) == 0600,
	   "the file has the disk's size and is root's");
	memset(data, 7, 2 * STORE_PAGE);
	ok(pwrite(fd, data, 1024, 512) == 1024 && pread(fd, data, STORE_PAGE, 0) == STORE_PAGE && data[511] == 0 &&
	       data[512] == 7 && data[1535] == 7 && data[1536] == 0,
	   "sectors are written");
	ok(pread(fd, data, 100, 0) == -1 && errno == EINVAL, "a part of a sector is not read");
	ok(pwrite(fd, data, 512, 1) == -1 && errno == EINVAL, "nor written");
	ok(pread(fd, data, 2 * STORE_PAGE, BYTES - STORE_PAGE) == STORE_PAGE, "a read ends at the end");
	ok(pread(fd, data, STORE_PAGE, BYTES) == 0, "there is nothing behind it");
	ok(pwrite(fd, data, 2 * STORE_PAGE, BYTES - STORE_PAGE) == -1 && errno == ENOSPC, "nor room");
	ok(fallocate(fd, 0, 0, STORE_PAGE) == -1 && errno == EOPNOTSUPP, "it cannot be allocated ahead");
	ok(ftruncate(fd, STORE_PAGE) == -1 && errno == EPERM, "nor cut");
	close(fd);
	ok(open(device.file, O_RDWR | O_TRUNC) == -1 && errno == EPERM, "nor emptied");
	snprintf(other, sizeof other, "%s/fuse/other", device.folder);
	ok(open(other, O_RDWR | O_CREAT, 0600) == -1, "there is room for no other file");
	snprintf(other, sizeof other, "%s/fuse", device.folder);
	ok(entries(other) == 1, "the folder lists it");
	fd = open(device.file, O_RDWR | O_CLOEXEC);
	ok(frontend_fuse.remove(device.frontend) == 0, "the device is removed with its file open");
	ok(pread(fd, data, STORE_PAGE, 0) == -1, "which is dead then");
	close(fd);
	ok(fuse_device_close(&device), "nothing is left");
	free(data);
}

/* --- Requests ------------------------------------------------------------------------------------------------ */

static const struct store_ops *real_ops;
static _Atomic unsigned crooked; /* pages that are not where they can be written from without a copy */

static int submit_straight(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		crooked += (uintptr_t)ios[i].data % STORE_PAGE != 0;
	return real_ops->submit(queue, ios, count);
}

/* One write and one read of @length; how many requests of the disk they are. */
static unsigned requests_of(const struct fuse_device *device, size_t length)
{
	struct disk_stats before, after;
	uint8_t *data = page_memory(length);
	int fd = open(device->file, O_RDWR | O_DIRECT | O_CLOEXEC);
	bool good;

	memset(data, 5, length);
	disk_get_stats(device->disk, &before);
	good = pwrite(fd, data, length, 0) == (ssize_t)length;
	memset(data, 0, length);
	good &= pread(fd, data, length, 0) == (ssize_t)length && data[0] == 5 && data[length - 1] == 5;
	disk_get_stats(device->disk, &after);
	close(fd);
	free(data);
	return good ? (unsigned)(after.requests[DISK_WRITE] - before.requests[DISK_WRITE] + after.requests[DISK_READ] -
				 before.requests[DISK_READ])
		    : 0;
}

static void test_requests(void)
{
	struct frontend_config config = {.name = NAME, .request_bytes = 1u << 20, .queues = 1, .depth = 8};
	struct fuse_device device;
	struct store_ops ops;

	fuse_device_open(&device, BYTES, NULL);
	real_ops = device.memory->ops;
	ops = *real_ops;
	ops.submit = submit_straight;
	device.memory->ops = &ops;
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a device, for long requests"))
		return;
	ok(requests_of(&device, 128u << 10) == 2, "128 KiB are one request");
	ok(requests_of(&device, 1u << 20) == 16, "more are several");
	ok(frontend_fuse.remove(device.frontend) == 0, "it is removed");
	config.folder = device.folder;
	ok(frontend_fuse.start(&config, device.disk, &device.frontend) == 0, "a device for requests of a mebibyte");
	ok(requests_of(&device, 1u << 20) == 2, "which is one");
	ok(crooked == 0, "pages go from and to the request's own memory, and lie as the kernel's do");
	ok(frontend_fuse.remove(device.frontend) == 0, "it is removed");
	device.memory->ops = real_ops;
	fuse_device_close(&device);
}

/* --- News of the store --------------------------------------------------------------------------------------- */

static int news_fd;           /* what the store says is its descriptor */
static _Atomic unsigned news; /* that were taken */

static int tell_news_fd(const struct store_queue *queue)
{
	(void)queue;
	return news_fd;
}

static int take_news(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	eventfd_t value;

	news += eventfd_read(news_fd, &value) == 0;
	return real_ops->poll(queue, dones, max);
}

/* Within 5 s. */
static bool news_are_taken(unsigned count)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned i = 0; i < 5000 && news < count; i++)
		nanosleep(&pause, NULL);
	return news >= count;
}

static void test_news(void)
{
	struct fuse_device device;
	struct store_ops ops;

	news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fuse_device_open(&device, BYTES, NULL);
	real_ops = device.memory->ops;
	ops = *real_ops;
	ops.queue_fd = tell_news_fd;
	ops.poll = take_news;
	device.memory->ops = &ops;
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a device whose store has news now and then"))
		return;
	for (unsigned i = 1; i <= 3; i++) {
		eventfd_write(news_fd, 1);
		ok(news_are_taken(i), "a queue without requests takes them");
		requests_of(&device, STORE_PAGE);
	}
	ok(frontend_fuse.remove(device.frontend) == 0, "it is removed");
	device.memory->ops = real_ops;
	fuse_device_close(&device);
	close(news_fd);
}

/* --- In use -------------------------------------------------------------------------------------------------- */

static bool device_works(const struct fuse_device *device)
{
	uint8_t *data = page_memory(STORE_PAGE);
	int fd = open_device(device, O_DIRECT);
	bool good = pwrite(fd, data, STORE_PAGE, 0) == STORE_PAGE && pread(fd, data, STORE_PAGE, 0) == STORE_PAGE;

	close(fd);
	free(data);
	return good;
}

static void test_in_use(void)
{
	struct fuse_device device;
	int fd;

	fuse_device_open(&device, BYTES, NULL);
	if (!ok(fuse_device_start(&device, 2, 0) == 0, "a device, to be used"))
		return;
	fd = open_device(&device, O_EXCL);
	ok(frontend_fuse.remove(device.frontend) == -EBUSY, "it is not removed while somebody has it for himself");
	close(fd);
	ok(device_works(&device), "and works on");
	fd = open_device(&device, 0);
	ok(frontend_fuse.remove(device.frontend) == -EBUSY, "nor while somebody has it open");
	close(fd);
	ok(device_works(&device), "and works on when he has closed it");
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device), "then it is");
}

/* --- Errors -------------------------------------------------------------------------------------------------- */

static void test_errors(void)
{
	const struct store_faults faults = {.seed = 4, .read_error = 16384, .write_error = 16384, .corrupt = 4096};
	struct fuse_device device;
	uint8_t *data = page_memory(STORE_PAGE);
	unsigned good = 0, failed = 0, other = 0;
	int fd;

	fuse_device_open(&device, BYTES, &faults);
	/* The kernel reads a new device's first page: that may fail, and is no matter. */
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a device whose store fails every fourth request"))
		return;
	fd = open_device(&device, O_DIRECT);
	memset(data, 1, STORE_PAGE);
	for (unsigned i = 0; i < 400; i++) {
		ssize_t size =
		    i % 2 ? pread(fd, data, STORE_PAGE, i * STORE_PAGE) : pwrite(fd, data, STORE_PAGE, i * STORE_PAGE);

		good += size == STORE_PAGE;
		failed += size == -1 && errno == EIO;
		other += size != STORE_PAGE && (size != -1 || errno != EIO);
	}
	close(fd);
	ok(good > 200 && failed > 50 && other == 0, "%u requests succeed, %u fail with EIO, %u otherwise", good, failed,
	   other);
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device), "it is removed");
	free(data);
}

/* --- Killed in the middle ------------------------------------------------------------------------------------ */

#define KILLED 20u

/* A process that reads the file as fast as it can, and is killed once it has begun. */
static bool reader_is_killed(const struct fuse_device *device, void *data)
{
	int pipes[2], status = 0;
	char begun;
	pid_t child;
	bool good;

	if (pipe(pipes) < 0)
		return false;
	child = fork();
	if (child == 0) {
		int fd = open(device->file, O_RDONLY | O_DIRECT);

		for (unsigned i = 0; pread(fd, data, STORE_PAGE, (off_t)(i % 1024 * STORE_PAGE)) == STORE_PAGE; i++)
			if (i == 10 && write(pipes[1], "b", 1) != 1)
				break;
		_exit(EXIT_FAILURE);
	}
	close(pipes[1]);
	good = read(pipes[0], &begun, 1) == 1;
	close(pipes[0]);
	kill(child, SIGKILL);
	return waitpid(child, &status, 0) == child && good && WIFSIGNALED(status);
}

static void test_killed(const struct store_faults *late)
{
	struct fuse_device device;
	uint8_t *data = page_memory(STORE_PAGE);
	unsigned failed = 0;

	fuse_device_open(&device, BYTES, late);
	if (!ok(fuse_device_start(&device, 2, 0) == 0, "a device whose answers come late"))
		return;
	for (unsigned i = 0; i < KILLED; i++)
		failed += !reader_is_killed(&device, data);
	ok(failed == 0, "%u programs are killed while they read it", KILLED);
	ok(device_works(&device), "it works on");
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device), "and is removed");
	free(data);
}

int main(void)
{
	const struct store_faults late = {.seed = 7, .delay = 32768, .delay_polls = 200};
	char why[256];

	if (frontend_fuse.probe(why) < 0)
		return tap_skip_all(why);
	test_shape();
	test_contents(1, 0, NULL);
	test_contents(2, 50, &late);
	test_contents(2, 0, &late);
	test_file();
	test_requests();
	test_news();
	test_in_use();
	test_errors();
	test_killed(&late);
	return tap_done();
}
