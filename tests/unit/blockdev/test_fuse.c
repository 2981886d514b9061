/* test_fuse: a FUSE block device: its size and blocks, its contents with several threads and through the file itself,
   errors of the store, and removal. */
#include "common/random.h"
#include "tests/lib/tap.h"
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
#define LONGEST (256u << 10) /* longer than one request of the kernel */

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

static void a_device_has_the_size_of_its_disk_and_direct_io(void)
{
	struct fuse_device device;
	uint64_t bytes = 0;
	int block = 0, fd;
	char text[32] = "";
	unsigned number = UINT32_MAX;

	ok(fuse_device_open(&device, BYTES, NULL) == 0 && fuse_device_start(&device, 0, 0) == 0,
	   "a FUSE device starts");
	ok(sscanf(device.device.path, "/dev/loop%u", &number) == 1 && (int32_t)number == device.device.number,
	   "a FUSE device reports its path and number");
	fd = open_device(&device, O_DIRECT);
	ok(fd >= 0 && ioctl(fd, BLKGETSIZE64, &bytes) == 0 && bytes == BYTES,
	   "the block device has the size of the disk");
	ok(ioctl(fd, BLKSSZGET, &block) == 0 && block == 4096, "the block device has blocks of one page");
	close(fd);
	snprintf(text, sizeof text, "/sys/block/loop%u/loop/dio", number);
	fd = open(text, O_RDONLY);
	ok(fd >= 0 && read(fd, text, sizeof text) > 0 && text[0] == '1', "the loop device uses direct I/O");
	close(fd);
	ok(frontend_fuse.remove(device.frontend) == 0, "a FUSE device that nobody uses is removed");
	ok(fuse_device_close(&device), "a removed FUSE device leaves nothing in its folder");
}

/* --- Contents ------------------------------------------------------------------------------------------------ */

/* A thread's part of the disk, and the results of its check. */
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
			/* A block device supports the first call, a file the second. Both write zeroes here. */
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

/* Runs the threads on @path, each in its own part, and checks their results. The checks' texts begin with @what. */
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
	ok(wrong == 0 && failed == 0, "%s hold what was written (%u wrong reads, %u failed requests)", what, wrong,
	   failed);
}

/* Returns the number of pages of the file in the kernel's cache, or -1 on kernels before 6.5, which lack the call. */
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

static void a_device_and_its_file_hold_what_was_written(unsigned queues, unsigned spin_us,
							const struct store_faults *faults)
{
	struct fuse_device device;
	struct store_stats stats;
	uint64_t all[2] = {0, BYTES};
	int64_t cached;
	int fd;

	if (!ok(fuse_device_open(&device, BYTES, faults) == 0 && fuse_device_start(&device, queues, spin_us) == 0,
		"a FUSE device starts with %u queues that poll for %u us%s", queues, spin_us,
		faults ? ", on a store with late answers" : ""))
		return;
	check_contents(device.device.path, STORE_PAGE, "pages of the block device");
	fd = open_device(&device, O_DIRECT);
	ok(ioctl(fd, BLKDISCARD, all) == 0, "a discard of the whole block device succeeds");
	close(fd);
	store_stats(device.store, &stats);
	ok(stats.pages_live == 0, "a discard of the whole block device releases every page");
	check_contents(device.file, DISK_SECTOR, "sectors of the file under the block device");
	cached = cached_pages(device.file);
	if (cached < 0)
		tap_skip("the kernel caches no page of the FUSE file", "no cachestat() before Linux 6.5");
	else
		ok(cached == 0, "the kernel caches no page of the FUSE file (%d)", (int)cached);
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device),
	   "a FUSE device is removed after its contents were checked");
}

/* --- The file itself ----------------------------------------------------------------------------------------- */

static void the_file_has_a_fixed_size_and_takes_whole_sectors(void)
{
	struct fuse_device device;
	struct stat stat;
	uint8_t *data = page_memory(2 * STORE_PAGE);
	int fd;

	fuse_device_open(&device, BYTES, NULL);
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a FUSE device for the tests of its file starts"))
		return;
	fd = open(device.file, O_RDWR | O_CLOEXEC);
	ok(fd >= 0 && fstat(fd, &stat) == 0 && stat.st_size == BYTES && (stat.st_mode & 07777) == 0600,
	   "the FUSE file has the disk's size and mode 0600");
	memset(data, 7, 2 * STORE_PAGE);
	ok(pwrite(fd, data, 1024, 512) == 1024 && pread(fd, data, STORE_PAGE, 0) == STORE_PAGE && data[511] == 0 &&
	       data[512] == 7 && data[1535] == 7 && data[1536] == 0,
	   "a write of two sectors changes exactly these sectors");
	ok(pread(fd, data, 100, 0) == -1 && errno == EINVAL, "a read of a part of a sector gets EINVAL");
	ok(pwrite(fd, data, 512, 1) == -1 && errno == EINVAL, "a write that does not begin at a sector gets EINVAL");
	ok(pread(fd, data, 2 * STORE_PAGE, BYTES - STORE_PAGE) == STORE_PAGE,
	   "a read beyond the end of the file stops at the end");
	ok(pread(fd, data, STORE_PAGE, BYTES) == 0, "a read at the end of the file returns 0 bytes");
	ok(pwrite(fd, data, 2 * STORE_PAGE, BYTES - STORE_PAGE) == -1 && errno == ENOSPC,
	   "a write beyond the end of the file gets ENOSPC");
	ok(fallocate(fd, 0, 0, STORE_PAGE) == -1 && errno == EOPNOTSUPP,
	   "allocating space in the file gets EOPNOTSUPP");
	ok(ftruncate(fd, STORE_PAGE) == -1 && errno == EPERM, "truncating the file gets EPERM");
	close(fd);
	ok(open(device.file, O_RDWR | O_TRUNC) == -1 && errno == EPERM, "opening the file with O_TRUNC gets EPERM");
	fd = open(device.file, O_RDWR | O_CLOEXEC);
	ok(frontend_fuse.remove(device.frontend) == 0, "a FUSE device is removed while its file is open");
	ok(pread(fd, data, STORE_PAGE, 0) == -1, "a read of the open file fails after the removal");
	close(fd);
	ok(fuse_device_close(&device), "a FUSE device removed with its file open leaves nothing in its folder");
	free(data);
}

/* --- Requests ------------------------------------------------------------------------------------------------ */

static const struct store_ops *real_ops;
static _Atomic unsigned crooked; /* runs whose memory is not page-aligned, so that the kernel must copy it */

static int submit_straight(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		crooked += (uintptr_t)ios[i].data % STORE_PAGE != 0;
	return real_ops->submit(queue, ios, count);
}

/* Performs one write and one read of @length. Returns how many requests of the disk they cause, or 0 on an error. */
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

static void long_requests_are_split_but_not_copied(void)
{
	struct frontend_config config = {.name = NAME, .request_bytes = 1u << 20, .queues = 1, .depth = 8};
	struct fuse_device device;
	struct store_ops ops;

	fuse_device_open(&device, BYTES, NULL);
	real_ops = device.memory->ops;
	ops = *real_ops;
	ops.submit = submit_straight;
	device.memory->ops = &ops;
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a FUSE device for the tests of long requests starts"))
		return;
	ok(requests_of(&device, 128u << 10) == 2, "128 KiB are one request by default");
	ok(requests_of(&device, 1u << 20) == 16, "1 MiB is eight requests by default");
	ok(frontend_fuse.remove(device.frontend) == 0, "a FUSE device with default requests is removed");
	config.folder = device.folder;
	ok(frontend_fuse.start(&config, device.disk, &device.frontend) == 0,
	   "a FUSE device for requests of 1 MiB starts");
	ok(requests_of(&device, 1u << 20) == 2, "1 MiB is one request if requests may have 1 MiB");
	ok(crooked == 0, "the store gets page-aligned memory, so no request is copied");
	ok(frontend_fuse.remove(device.frontend) == 0, "a FUSE device with requests of 1 MiB is removed");
	device.memory->ops = real_ops;
	fuse_device_close(&device);
}

/* --- News of the store --------------------------------------------------------------------------------------- */

static int news_fd;           /* an eventfd in place of the store's descriptor */
static _Atomic unsigned news; /* events that were taken */

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

/* Returns true if @count events are taken within 5 s. */
static bool news_are_taken(unsigned count)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned i = 0; i < 5000 && news < count; i++)
		nanosleep(&pause, NULL);
	return news >= count;
}

/* Returns how often the threads of all queues have gone to sleep. */
static unsigned long sleeps(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	unsigned long sum = 0, count;
	char line[320];

	while (tasks && (task = readdir(tasks))) {
		bool of_queue = false;
		FILE *status;

		snprintf(line, sizeof line, "/proc/self/task/%s/status", task->d_name);
		status = fopen(line, "re");
		while (status && fgets(line, sizeof line, status)) {
			of_queue |= strncmp(line, "Name:\tfuse", 10) == 0;
			if (of_queue && sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
				sum += count;
		}
		if (status)
			fclose(status);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

/* Returns true if the queues' threads soon sleep for 200 ms without interruption. */
static bool queues_fall_asleep(void)
{
	const struct timespec while_asleep = {.tv_nsec = 200000000};
	unsigned long before = sleeps(), now = before;

	for (unsigned i = 0; i < 25; i++) {
		nanosleep(&while_asleep, NULL);
		now = sleeps();
		if (before && now == before)
			return true;
		before = now;
	}
	return false;
}

static void an_idle_queue_polls_its_store(void)
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
	if (!ok(fuse_device_start(&device, 1, 0) == 0, "a FUSE device on a store that signals events starts"))
		return;
	for (unsigned i = 1; i <= 3; i++) {
		eventfd_write(news_fd, 1);
		ok(news_are_taken(i), "a queue without requests polls its store when the store signals an event");
		requests_of(&device, STORE_PAGE);
	}
	ok(queues_fall_asleep(), "a queue without requests and without events of its store does not wake up");
	for (unsigned i = 4; i <= 6; i++) {
		eventfd_write(news_fd, 1);
		ok(news_are_taken(i), "a queue polls its store after each event in a long time without requests");
	}
	ok(frontend_fuse.remove(device.frontend) == 0, "a FUSE device is removed after events of its store");
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

static void a_device_in_use_is_not_removed(void)
{
	struct fuse_device device;
	int fd;

	fuse_device_open(&device, BYTES, NULL);
	if (!ok(fuse_device_start(&device, 2, 0) == 0, "a FUSE device for the tests of removal starts"))
		return;
	fd = open_device(&device, O_EXCL);
	ok(frontend_fuse.remove(device.frontend) == -EBUSY,
	   "a removal gets -EBUSY while a process has the device open exclusively");
	close(fd);
	ok(device_works(&device), "a device still works after a removal was refused for an exclusive opener");
	fd = open_device(&device, 0);
	ok(frontend_fuse.remove(device.frontend) == -EBUSY,
	   "a removal gets -EBUSY while a process has the device open");
	close(fd);
	ok(device_works(&device), "a device still works when the opener that blocked a removal has closed it");
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device),
	   "a FUSE device is removed when nobody has it open any more");
}

/* --- Errors -------------------------------------------------------------------------------------------------- */

static void errors_of_the_store_become_eio(void)
{
	const struct store_faults faults = {.seed = 4, .read_error = 16384, .write_error = 16384, .corrupt = 4096};
	struct fuse_device device;
	uint8_t *data = page_memory(STORE_PAGE);
	unsigned good = 0, failed = 0, other = 0;
	int fd;

	fuse_device_open(&device, BYTES, &faults);
	/* The kernel reads the first page of a new device. A failure of that read does no harm. */
	if (!ok(fuse_device_start(&device, 1, 0) == 0,
		"a FUSE device on a store that fails every fourth request starts"))
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
	ok(good > 200 && failed > 50 && other == 0, "requests succeed (%u) or fail with EIO (%u), never otherwise (%u)",
	   good, failed, other);
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device),
	   "a FUSE device is removed after errors of its store");
	free(data);
}

/* --- Killed in the middle ------------------------------------------------------------------------------------ */

#define KILLED 20u

/* Starts a process that reads the file in a loop. Kills this process after some reads. Returns true if the signal ended
   it. */
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

static void a_device_survives_killed_readers(const struct store_faults *late)
{
	struct fuse_device device;
	uint8_t *data = page_memory(STORE_PAGE);
	unsigned failed = 0;

	fuse_device_open(&device, BYTES, late);
	if (!ok(fuse_device_start(&device, 2, 0) == 0, "a FUSE device on a store with late answers starts"))
		return;
	for (unsigned i = 0; i < KILLED; i++)
		failed += !reader_is_killed(&device, data);
	ok(failed == 0, "%u programs that read the FUSE file die when they are killed", KILLED);
	ok(device_works(&device), "a FUSE device works after readers of its file were killed");
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device),
	   "a FUSE device is removed after readers of its file were killed");
	free(data);
}

int main(void)
{
	const struct store_faults late = {.seed = 7, .delay = 32768, .delay_polls = 200};
	char why[256];

	if (frontend_fuse.probe(why) < 0)
		return tap_skip_all(why);
	a_device_has_the_size_of_its_disk_and_direct_io();
	a_device_and_its_file_hold_what_was_written(1, 0, NULL);
	a_device_and_its_file_hold_what_was_written(2, 50, &late);
	a_device_and_its_file_hold_what_was_written(2, 0, &late);
	the_file_has_a_fixed_size_and_takes_whole_sectors();
	long_requests_are_split_but_not_copied();
	an_idle_queue_polls_its_store();
	a_device_in_use_is_not_removed();
	errors_of_the_store_become_eio();
	a_device_survives_killed_readers(&late);
	return tap_done();
}
