/*
 * ublk_disk: serves ublk devices for tests. A file holds the pages, which outlive the server of the device.
 *
 *   ublk_disk start SIZE FILE [us]         makes a device, prints its path, serves it
 *   ublk_disk adopt NUMBER SIZE FILE [us]  adopts a device whose server has ended, prints its path, serves it
 *   ublk_disk clear NUMBER                 removes a device whose server has ended
 *   ublk_disk cycles COUNT                 makes and removes devices, writes to and reads from each, reports leaks
 *   ublk_disk upgrades SIZE FILE COUNT     makes a device, prints its path, serves it, leaves and adopts it COUNT times
 *
 * With FILE "-" memory holds the pages. SIGTERM removes the device; if it is in use, the server prints "busy" and goes
 * on. SIGUSR1 makes the server leave the device. A request for a run of pages takes `us` microseconds (default 0).
 * UBLK_SPIN_US, UBLK_QUEUES, UBLK_DEPTH and UBLK_FOLDER set fields of frontend_config.
 */
#include "blockdev/frontend.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/size.h"
#include "tests/lib/entries.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PENDING_MAX 512

/* --- A store over a file ---------------------------------------------------------------------------------------- */

struct file_store {
	struct store base;
	char *pages;
	uint64_t delay_ns;
};

struct file_queue {
	struct store_queue base;
	int timer;
	unsigned head, tail; /* the ends of `pending`, which is in order of `due` */
	struct {
		struct store_io io;
		uint64_t due;
	} pending[PENDING_MAX];
};

static char buffer_token;

static int file_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	(void)store, (void)base, (void)length;
	*ret_buffer = (struct store_buffer *)&buffer_token;
	return 0;
}

static void file_deregister(struct store *store, struct store_buffer *buffer)
{
	(void)store, (void)buffer;
}

static int file_queue_open(struct store *store, struct store_queue **ret_queue)
{
	struct file_queue *queue = calloc(1, sizeof *queue);

	if (!queue)
		return -ENOMEM;
	queue->base.store = store;
	queue->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	*ret_queue = &queue->base;
	return 0;
}

static void file_queue_close(struct store_queue *queue)
{
	close(((struct file_queue *)queue)->timer);
	free(queue);
}

static int file_submit(struct store_queue *base, const struct store_io *ios, unsigned count)
{
	struct file_queue *queue = (struct file_queue *)base;
	uint64_t delay = ((struct file_store *)base->store)->delay_ns, due = delay ? clock_now() + delay : 0;
	unsigned taken = 0;

	while (taken < count && queue->tail - queue->head < PENDING_MAX) {
		queue->pending[queue->tail % PENDING_MAX].io = ios[taken++];
		queue->pending[queue->tail++ % PENDING_MAX].due = due;
	}
	return (int)taken;
}

static void file_carry_out(struct file_store *store, const struct store_io *io)
{
	char *pages = store->pages + io->page * STORE_PAGE;

	if (io->op == STORE_READ)
		memcpy(io->data, pages, (size_t)io->count * STORE_PAGE);
	else
		memcpy(pages, io->data, (size_t)io->count * STORE_PAGE);
}

static int file_poll(struct store_queue *base, struct store_done *dones, unsigned max)
{
	struct file_queue *queue = (struct file_queue *)base;
	uint64_t expirations, now = queue->head != queue->tail ? clock_now() : 0;
	unsigned count = 0;

	while (count < max && queue->head != queue->tail && queue->pending[queue->head % PENDING_MAX].due <= now) {
		const struct store_io *io = &queue->pending[queue->head++ % PENDING_MAX].io;

		file_carry_out((struct file_store *)base->store, io);
		dones[count++] = (struct store_done){.cookie = io->cookie};
	}
	if (((struct file_store *)base->store)->delay_ns && read(queue->timer, &expirations, sizeof expirations) < 0)
		return (int)count; /* EAGAIN: the timer is not set, or has not expired */
	return (int)count;
}

static int file_queue_fd(const struct store_queue *queue)
{
	return ((const struct file_queue *)queue)->timer;
}

static int file_arm(struct store_queue *base)
{
	struct file_queue *queue = (struct file_queue *)base;
	uint64_t due;

	if (queue->head == queue->tail)
		return 0;
	due = queue->pending[queue->head % PENDING_MAX].due;
	if (due <= clock_now())
		return 1;
	timerfd_settime(queue->timer, TFD_TIMER_ABSTIME,
			&(struct itimerspec){
			    .it_value = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)}},
			NULL);
	return 0;
}

static void file_discard(struct store *store, uint64_t page, uint64_t count)
{
	char *pages = ((struct file_store *)store)->pages + page * STORE_PAGE;

	if (madvise(pages, count * STORE_PAGE, MADV_REMOVE) < 0)
		memset(pages, 0, count * STORE_PAGE);
}

static bool file_same(const struct store *store, uint64_t page, const void *data)
{
	return memcmp(((const struct file_store *)store)->pages + page * STORE_PAGE, data, STORE_PAGE) == 0;
}

static void file_stats(const struct store *store, struct store_stats *ret_stats)
{
	(void)store;
	*ret_stats = (struct store_stats){.pages_live = 0};
}

static uint64_t file_memory(const struct store *store)
{
	(void)store;
	return 0;
}

static void file_close(struct store *store)
{
	munmap(((struct file_store *)store)->pages, store->pages * STORE_PAGE);
	free(store);
}

static const struct store_ops file_store_ops = {
    .register_buffer = file_register,
    .deregister_buffer = file_deregister,
    .queue_open = file_queue_open,
    .queue_close = file_queue_close,
    .submit = file_submit,
    .poll = file_poll,
    .queue_fd = file_queue_fd,
    .arm = file_arm,
    .discard = file_discard,
    .same = file_same,
    .stats = file_stats,
    .memory = file_memory,
    .close = file_close,
};

static int file_store_open(const char *path, uint64_t bytes, unsigned delay_us, struct store **ret_store)
{
	if (strcmp(path, "-") == 0)
		return store_open_memory(bytes / STORE_PAGE, ret_store);
	struct file_store *store = calloc(1, sizeof *store);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!store || fd < 0 || ftruncate(fd, (off_t)bytes) < 0) {
		if (fd >= 0)
			close(fd);
		free(store);
		return -errno;
	}
	store->base.ops = &file_store_ops;
	store->base.pages = bytes / STORE_PAGE;
	store->delay_ns = delay_us * 1000ull;
	store->pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (store->pages == MAP_FAILED) {
		free(store);
		return -errno;
	}
	*ret_store = &store->base;
	return 0;
}

/* --- Serving ---------------------------------------------------------------------------------------------------- */

static void die(const char *what, int status)
{
	fprintf(stderr, "ublk_disk: %s: %s\n", what, strerror(-status));
	exit(1);
}

static void check(const char *what, int status)
{
	if (status < 0)
		die(what, status);
}

static struct frontend_config test_config(void)
{
	const char *spin = getenv("UBLK_SPIN_US"), *queues = getenv("UBLK_QUEUES"), *depth = getenv("UBLK_DEPTH");

	return (struct frontend_config){.name = "test",
					.folder = getenv("UBLK_FOLDER"),
					.queues = queues ? (unsigned)atoi(queues) : 0,
					.depth = depth ? (unsigned)atoi(depth) : 0,
					.spin_us = spin ? (unsigned)atoi(spin) : 50};
}

static void print_path(const struct frontend *frontend)
{
	struct frontend_device device;

	frontend->ops->device(frontend, &device);
	printf("%s\n", device.path);
	fflush(stdout);
}

static void signals_block(sigset_t *ret_signals)
{
	sigemptyset(ret_signals);
	sigaddset(ret_signals, SIGTERM);
	sigaddset(ret_signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, ret_signals, NULL);
}

static void serve(struct frontend *frontend)
{
	sigset_t signals;
	int which, status;

	signals_block(&signals);
	for (;;) {
		sigwait(&signals, &which);
		if (which == SIGUSR1) {
			frontend->ops->leave(frontend);
			return;
		}
		status = frontend->ops->remove(frontend);
		if (status == 0)
			return;
		printf("%s\n", status == -EBUSY ? "busy" : strerror(-status));
		fflush(stdout);
	}
}

static int run_device(int32_t number, const char *size, const char *path, const char *delay)
{
	struct frontend_config config = test_config();
	struct frontend *frontend;
	struct store *store;
	struct disk *disk;
	uint64_t bytes;
	sigset_t signals;

	check(size, size_parse(size, &bytes));
	check(path, file_store_open(path, bytes, delay ? (unsigned)atoi(delay) : 0, &store));
	check("disk_open", disk_open(store, bytes, &disk));
	signals_block(&signals);
	config.number = number;
	if (number >= 0)
		check("adopt", frontend_ublk.adopt(&config, disk, &frontend));
	else
		check("start", frontend_ublk.start(&config, disk, &frontend));
	print_path(frontend);
	serve(frontend);
	disk_close(disk);
	store_close(store);
	return 0;
}

static int run_upgrades(const char *size, const char *path, int count)
{
	struct frontend_config config = test_config();
	struct frontend_device device;
	struct frontend *frontend;
	struct store *store;
	struct disk *disk;
	uint64_t bytes;

	check(size, size_parse(size, &bytes));
	check(path, file_store_open(path, bytes, 200, &store));
	check("disk_open", disk_open(store, bytes, &disk));
	check("start", frontend_ublk.start(&config, disk, &frontend));
	print_path(frontend);
	frontend->ops->device(frontend, &device);
	config.number = device.number;
	for (int i = 0; i < count; i++) {
		usleep(50000);
		frontend->ops->leave(frontend);
		check("adopt", frontend_ublk.adopt(&config, disk, &frontend));
	}
	printf("upgraded\n");
	fflush(stdout);
	serve(frontend);
	disk_close(disk);
	store_close(store);
	return 0;
}

/* --- Cycles ----------------------------------------------------------------------------------------------------- */

static long memory_kib(void)
{
	char line[128];
	long kib = -1;
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "VmSize: %ld", &kib) == 1)
			break;
	fclose(file);
	return kib;
}

static void cycle(struct disk *disk, unsigned number)
{
	static char written[STORE_PAGE] __attribute__((aligned(4096))), seen[STORE_PAGE] __attribute__((aligned(4096)));
	struct frontend_config config = test_config();
	struct frontend_device device;
	struct frontend *frontend;
	int fd;

	config.queues = 1;
	check("start", frontend_ublk.start(&config, disk, &frontend));
	frontend->ops->device(frontend, &device);
	fd = open(device.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	check(device.path, fd < 0 ? -errno : 0);
	memset(written, (int)number % 255 + 1, sizeof written);
	if (pwrite(fd, written, sizeof written, STORE_PAGE) != STORE_PAGE ||
	    pread(fd, seen, sizeof seen, STORE_PAGE) != STORE_PAGE || memcmp(written, seen, sizeof seen) != 0)
		die("write and read", -EIO);
	close(fd);
	check("remove", frontend->ops->remove(frontend));
	if (access(device.path, F_OK) == 0)
		die("the device is still there", -EEXIST);
}

static int run_cycles(unsigned count)
{
	unsigned fds = 0;
	long memory = 0;
	struct store *store;
	struct disk *disk;

	check("store", store_open_memory(1024, &store));
	check("disk", disk_open(store, 1024ull * STORE_PAGE, &disk));
	for (unsigned i = 0; i < count; i++) {
		cycle(disk, i);
		/* The first cycles warm the allocator up. */
		if (i == 4) {
			fds = entries("/proc/self/fd");
			memory = memory_kib();
		}
	}
	printf("%u cycles, %d descriptors and %ld KiB more\n", count, (int)entries("/proc/self/fd") - (int)fds,
	       memory_kib() - memory);
	disk_close(disk);
	store_close(store);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	log_setup("ublk_disk", LOG_LEVEL_WARNING);
	if (strcmp(verb, "start") == 0 && argc >= 4)
		return run_device(-1, argv[2], argv[3], argv[4]);
	if (strcmp(verb, "adopt") == 0 && argc >= 5)
		return run_device(atoi(argv[2]), argv[3], argv[4], argv[5]);
	if (strcmp(verb, "upgrades") == 0 && argc == 5)
		return run_upgrades(argv[2], argv[3], atoi(argv[4]));
	if (strcmp(verb, "cycles") == 0 && argc == 3)
		return run_cycles((unsigned)atoi(argv[2]));
	if (strcmp(verb, "clear") == 0 && argc == 3) {
		check("clear", frontend_ublk.clear(atoi(argv[2])));
		return 0;
	}
	fprintf(stderr, "ublk_disk: see the head of tests/vm/ublk_disk.c\n");
	return 2;
}
