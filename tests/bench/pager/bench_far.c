/*
 * bench_far: the cost of a far fault, compared with its bare parts in the same run:
 *
 *   floor     a userfaultfd fault resolved by UFFDIO_COPY from a handler that blocks on the faulting thread's
 *             processor, and a 4 KiB round trip over TCP on loopback with both ends spinning on their own processors
 *   fault     a random far fault through libfarpage over tcp, with one thread and room for all pages
 *   random    random reads, then random writes, of 256 MiB with 64 MiB local
 *   threads   the random reads, by 16 threads
 *   scan      a read of the 256 MiB from one end to the other
 *
 * Usage: bench_far DONOR-URI... (donors with 256 MiB free together).
 *        bench_far --faults DONOR-URI...   only the userfaultfd part of the floor and the far fault, as "name value"
 *                                          lines: resolve_us, fault_us, fault_p99_us
 *        bench_far --encrypt DONOR-URI...  the far fault with plain and encrypted pages, in turn
 *        bench_far --random DONOR-URI...   the random reads, then the random writes. Before each it prints "ready" and
 *                                          waits for a line on standard input; after each "done FAULTS FETCHED EVICTED
 *                                          SECONDS" (account.py)
 */
#include "common/clock.h"
#include "common/random.h"
#include "farpage/farpage.h"
#include "tests/bench/figures.h"
#include "tests/lib/loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define FAULTS 20000u
#define TOUCHES 300000u
#define THREADS 16u
#define ROUNDS 3u
#define ENCRYPT_ROUNDS 7u

static struct samples samples;

struct quantiles {
	double p50, p99; /* us */
};

/* Returns the quantiles of the samples, and forgets the samples. */
static struct quantiles quantiles_of(void)
{
	struct quantiles quantiles;

	samples_sort(&samples);
	quantiles = (struct quantiles){samples_quantile(&samples, 500), samples_quantile(&samples, 990)};
	samples.count = 0;
	return quantiles;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_far: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- The floor -------------------------------------------------------------------------------------------------- */

static int floor_uffd;
static char floor_page[4096];

static void *resolve(void *argument)
{
	struct uffd_msg message;

	(void)argument;
	pin(0, 0);
	while (read(floor_uffd, &message, sizeof message) == (ssize_t)sizeof message) {
		struct uffdio_copy copy = {
		    .dst = message.arg.pagefault.address & ~(PAGE - 1), .src = (uintptr_t)floor_page, .len = PAGE};

		ioctl(floor_uffd, UFFDIO_COPY, &copy);
		if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE)
			break; /* the last fault is a write */
	}
	return NULL;
}

static struct quantiles bare_fault(void)
{
	size_t length = 64 * MIB;
	volatile char *memory =
	    mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	madvise((void *)(uintptr_t)memory, length, MADV_NOHUGEPAGE);
	floor_uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)memory, length}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (floor_uffd < 0 || ioctl(floor_uffd, UFFDIO_API, &api) || ioctl(floor_uffd, UFFDIO_REGISTER, &range))
		die("userfaultfd");
	pthread_t thread;
	pthread_create(&thread, NULL, resolve, NULL);
	pin(0, 0);
	struct random_state random;
	random_seed(&random, 1);
	uint64_t pages = length / PAGE;
	for (unsigned i = 0; i < FAULTS / 2; i++) {
		uint64_t page = i * 7919ull % (pages - 1);
		uint64_t start = clock_now();

		(void)memory[page * PAGE];
		samples_add(&samples, clock_now() - start);
	}
	memory[(pages - 1) * PAGE] = 1;
	pthread_join(thread, NULL);
	close(floor_uffd);
	munmap((void *)(uintptr_t)memory, length);
	return quantiles_of();
}

static void spin_transfer(int fd, char *data, size_t length, bool out)
{
	for (size_t done = 0; done < length;) {
		ssize_t part = out ? send(fd, data + done, length - done, MSG_DONTWAIT | MSG_NOSIGNAL)
				   : recv(fd, data + done, length - done, MSG_DONTWAIT);

		if (part > 0)
			done += (size_t)part;
		else if (part == 0 || (errno != EAGAIN && errno != EINTR))
			_exit(0);
	}
}

static struct quantiles bare_round_trip(void)
{
	uint16_t port;
	int listener = loopback_listen(&port), one = 1;
	char request[32] = {0}, page[4096] = {0};
	pid_t child = fork();

	if (child == 0) {
		pin(0, 1);
		int fd = accept(listener, NULL, NULL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		for (;;) {
			spin_transfer(fd, request, sizeof request, false);
			spin_transfer(fd, page, sizeof page, true);
		}
	}
	int fd = loopback_connect(port);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	pin(0, 0);
	for (unsigned i = 0; i < FAULTS; i++) {
		uint64_t start = clock_now();

		spin_transfer(fd, request, sizeof request, true);
		spin_transfer(fd, page, sizeof page, false);
		samples_add(&samples, clock_now() - start);
	}
	close(fd);
	close(listener);
	waitpid(child, NULL, 0);
	return quantiles_of();
}

/* --- Through libfarpage ----------------------------------------------------------------------------------------- */

static bool encrypt;

static struct farpage *open_far(char **donors, unsigned count, size_t local)
{
	struct farpage *farpage;
	struct farpage_options options = {
	    .local = local,
	    .donors = (const char *const *)donors,
	    .donor_count = count,
	    .window = 512 * MIB,
	    .encrypt = encrypt,
	};

	if (farpage_open(&options, &farpage))
		exit(1);
	return farpage;
}

static volatile char *map_filled(struct farpage *farpage, size_t length)
{
	void *address;

	if (farpage_map(farpage, length, &address))
		die("map");
	uint64_t *words = address;
	for (size_t i = 0; i < length / sizeof *words; i += 16)
		words[i] = i * 0x9e3779b97f4a7c15ull + 1;
	return address;
}

static void check(uint64_t page, uint64_t word)
{
	if (word != page * (PAGE / 8) * 0x9e3779b97f4a7c15ull + 1) {
		fprintf(stderr, "bench_far: page %llu is wrong\n", (unsigned long long)page);
		exit(1);
	}
}

static struct quantiles far_fault(char **donors, unsigned count)
{
	struct farpage *farpage = open_far(donors, count, 160 * MIB);
	volatile char *memory = map_filled(farpage, 128 * MIB);
	uint64_t pages = 128 * MIB / PAGE;

	farpage_advise(farpage, (void *)(uintptr_t)memory, 128 * MIB, FARPAGE_PAGEOUT);
	for (unsigned i = 0; i < FAULTS; i++) {
		uint64_t page = i * 7919ull % pages, start = clock_now();
		uint64_t word = *(volatile uint64_t *)(volatile void *)(memory + page * PAGE);

		samples_add(&samples, clock_now() - start);
		check(page, word);
	}
	struct farpage_stats stats;
	farpage_get_stats(farpage, &stats);
	if (stats.faults_far < FAULTS * 9 / 10)
		fprintf(stderr, "bench_far: only %llu of %u faults were far\n", (unsigned long long)stats.faults_far,
			FAULTS);
	farpage_close(farpage);
	return quantiles_of();
}

struct rates {
	double reads, writes, threads, scan; /* faults a second, but `scan` is pages a second */
	struct quantiles read, write;
	double resident_peak; /* share of the budget */
};

static uint64_t faults_of(const struct farpage *farpage)
{
	struct farpage_stats stats;

	farpage_get_stats(farpage, &stats);
	return stats.faults;
}

/* Returns the faults a second since @begin, when there had been @faults. */
static double rate_since(const struct farpage *farpage, uint64_t faults, uint64_t begin)
{
	const uint64_t end = clock_now();

	return (double)(faults_of(farpage) - faults) * 1e9 / (double)(end - begin);
}

static double touch(struct farpage *farpage, volatile char *memory, bool write, struct quantiles *ret_quantiles)
{
	uint64_t pages = 256 * MIB / PAGE;
	struct random_state random;

	random_seed(&random, write ? 3 : 2);
	const uint64_t faults = faults_of(farpage), begin = clock_now();
	for (unsigned i = 0; i < TOUCHES; i++) {
		uint64_t page = random_below(&random, pages), start = clock_now();
		volatile uint64_t *word = (volatile uint64_t *)(volatile void *)(memory + page * PAGE);

		if (write)
			word[9]++;
		check(page, word[0]);
		uint64_t took = clock_now() - start;
		if (took > 1500)
			samples_add(&samples, took);
	}
	const double rate = rate_since(farpage, faults, begin);
	*ret_quantiles = quantiles_of();
	return rate;
}

struct reader {
	volatile char *memory;
	uint64_t seed;
};

static void *read_random(void *argument)
{
	const struct reader *reader = argument;
	struct random_state random;

	random_seed(&random, reader->seed);
	for (unsigned i = 0; i < TOUCHES / THREADS; i++) {
		uint64_t page = random_below(&random, 256 * MIB / PAGE);

		check(page, *(volatile uint64_t *)(volatile void *)(reader->memory + page * PAGE));
	}
	return NULL;
}

/* Returns the faults a second of THREADS threads that read at random. */
static double touch_by_threads(struct farpage *farpage, volatile char *memory)
{
	pthread_t threads[THREADS];
	struct reader readers[THREADS];
	const uint64_t faults = faults_of(farpage), begin = clock_now();

	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){memory, 4 + i};
		if (pthread_create(&threads[i], NULL, read_random, &readers[i]))
			die("pthread_create");
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return rate_since(farpage, faults, begin);
}

static struct rates quarter(char **donors, unsigned count)
{
	struct farpage *farpage = open_far(donors, count, 64 * MIB);
	volatile char *memory = map_filled(farpage, 256 * MIB);
	uint64_t pages = 256 * MIB / PAGE;
	struct rates rates;

	rates.reads = touch(farpage, memory, false, &rates.read);
	rates.writes = touch(farpage, memory, true, &rates.write);
	rates.threads = touch_by_threads(farpage, memory);
	farpage_advise(farpage, (void *)(uintptr_t)memory, 256 * MIB, FARPAGE_PAGEOUT);
	uint64_t start = clock_now();
	for (uint64_t page = 0; page < pages; page++)
		check(page, *(volatile uint64_t *)(volatile void *)(memory + page * PAGE));
	rates.scan = (double)pages * 1e9 / (double)(clock_now() - start);
	struct farpage_stats stats;
	farpage_get_stats(farpage, &stats);
	rates.resident_peak = (double)stats.resident_peak_bytes / (double)(64 * MIB);
	farpage_close(farpage);
	return rates;
}

static void random_step(struct farpage *farpage, volatile char *memory, bool write)
{
	struct farpage_stats before, after;
	struct quantiles quantiles;

	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		exit(1);
	farpage_get_stats(farpage, &before);
	uint64_t start = clock_now();
	touch(farpage, memory, write, &quantiles);
	double seconds = (double)(clock_now() - start) / 1e9;
	farpage_get_stats(farpage, &after);
	printf("done %llu %llu %llu %.6f\n", (unsigned long long)(after.faults_far - before.faults_far),
	       (unsigned long long)(after.fetched_pages - before.fetched_pages),
	       (unsigned long long)(after.evicted_pages - before.evicted_pages), seconds);
	fflush(stdout);
}

static void random_steps(char **donors, unsigned count)
{
	struct farpage *farpage = open_far(donors, count, 64 * MIB);
	volatile char *memory = map_filled(farpage, 256 * MIB);

	random_step(farpage, memory, false);
	random_step(farpage, memory, true);
	farpage_close(farpage);
}

/* Measures rates, because eviction also seals pages. Sealing shows if the donors already have the contents. */
static void compare_encrypted_rates(char **donors, unsigned count)
{
	struct rounds reads[2] = {0}, writes[2] = {0};
	cpu_set_t all;

	CPU_ZERO(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &all);
	sched_setaffinity(0, sizeof all, &all);
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned j = 0; j < 2; j++) {
			encrypt = (i + j) % 2;
			struct farpage *farpage = open_far(donors, count, 64 * MIB);
			volatile char *memory = map_filled(farpage, 256 * MIB);
			struct quantiles quantiles;

			rounds_add(&reads[encrypt], touch(farpage, memory, false, &quantiles));
			rounds_add(&writes[encrypt], touch(farpage, memory, true, &quantiles));
			farpage_close(farpage);
		}
	}
	for (unsigned j = 0; j < 2; j++)
		printf("%-52s %10.0f /s %10.0f /s\n",
		       j ? "the same, pages encrypted" : "random reads, writes, a quarter local (medians of 3)",
		       rounds_median(&reads[j]), rounds_median(&writes[j]));
}

/* Measures the cost of --encrypt. Rounds alternate, because the speed of the machine varies. */
static void compare_encrypted(char **donors, unsigned count)
{
	struct rounds p50[2] = {0}, p99[2] = {0}, ratios = {0};

	pin(0, 0); /* as for the floor */
	for (unsigned i = 0; i < ENCRYPT_ROUNDS; i++) {
		struct quantiles far[2];

		for (unsigned j = 0; j < 2; j++) {
			encrypt = (i + j) % 2;
			far[encrypt] = far_fault(donors, count);
			rounds_add(&p50[encrypt], far[encrypt].p50);
			rounds_add(&p99[encrypt], far[encrypt].p99);
		}
		rounds_add(&ratios, far[1].p50 / far[0].p50);
		printf("round %u: far fault %.1f/%.1f us, encrypted %.1f/%.1f us\n", i + 1, far[0].p50, far[0].p99,
		       far[1].p50, far[1].p99);
		fflush(stdout);
	}
	printf("\n%-52s %10s %10s\n", "medians of 7", "p50", "p99");
	_Static_assert(ENCRYPT_ROUNDS == 7, "as it says");
	printf("%-52s %7.1f us %7.1f us\n", "far fault", rounds_median(&p50[0]), rounds_median(&p99[0]));
	printf("%-52s %7.1f us %7.1f us\n", "far fault, pages encrypted", rounds_median(&p50[1]),
	       rounds_median(&p99[1]));
	printf("%-52s %8.2f x   (at most 1.25)\n", "  p50 against p50, median of the rounds", rounds_median(&ratios));
	fflush(stdout);
	compare_encrypted_rates(donors, count);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: bench_far DONOR-URI...\n");
		return 2;
	}
	if (strcmp(argv[1], "--faults") == 0) {
		struct quantiles resolve = bare_fault(), far = far_fault(argv + 2, (unsigned)argc - 2);

		printf("resolve_us %.1f\nfault_us %.1f\nfault_p99_us %.1f\n", resolve.p50, far.p50, far.p99);
		return 0;
	}
	if (strcmp(argv[1], "--random") == 0) {
		random_steps(argv + 2, (unsigned)argc - 2);
		return 0;
	}
	if (strcmp(argv[1], "--encrypt") == 0) {
		compare_encrypted(argv + 2, (unsigned)argc - 2);
		return 0;
	}
	struct rounds fault50 = {0}, fault99 = {0}, trip50 = {0}, far50 = {0}, far99 = {0};
	struct rounds reads = {0}, writes = {0}, threads = {0}, scans = {0}, read99 = {0}, write99 = {0};
	double peak = 0;
	cpu_set_t all;
	sched_getaffinity(0, sizeof all, &all);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct quantiles fault = bare_fault(), trip = bare_round_trip();
		struct quantiles far = far_fault(argv + 1, (unsigned)argc - 1);

		sched_setaffinity(0, sizeof all, &all); /* the other figures are of a program without pinned threads */
		struct rates rates = quarter(argv + 1, (unsigned)argc - 1);
		rounds_add(&fault50, fault.p50), rounds_add(&fault99, fault.p99), rounds_add(&trip50, trip.p50);
		rounds_add(&far50, far.p50), rounds_add(&far99, far.p99), rounds_add(&reads, rates.reads);
		rounds_add(&writes, rates.writes), rounds_add(&threads, rates.threads), rounds_add(&scans, rates.scan);
		rounds_add(&read99, rates.read.p99), rounds_add(&write99, rates.write.p99);
		peak = rates.resident_peak > peak ? rates.resident_peak : peak;
		printf("round %u: fault %.1f/%.1f  round trip %.1f/%.1f  far fault %.1f/%.1f us;  reads %.0f, writes "
		       "%.0f, 16 threads %.0f faults/s, scan %.0f pages/s\n",
		       i + 1, fault.p50, fault.p99, trip.p50, trip.p99, far.p50, far.p99, rates.reads, rates.writes,
		       rates.threads, rates.scan);
		fflush(stdout);
	}
	double floor = rounds_median(&fault50) + rounds_median(&trip50), p50 = rounds_median(&far50);
	printf("\n%-52s %10s %10s\n", "medians of 3", "p50", "p99");
	printf("%-52s %7.1f us %7.1f us\n", "floor: userfaultfd resolve, handler on the same CPU",
	       rounds_median(&fault50), rounds_median(&fault99));
	printf("%-52s %7.1f us\n", "floor: 4 KiB TCP round trip, both ends spinning", rounds_median(&trip50));
	printf("%-52s %7.1f us %7.1f us\n", "far fault through libfarpage", p50, rounds_median(&far99));
	printf("%-52s %8.2f x   (at most 1.25)\n", "  p50 against the sum of the floors", p50 / floor);
	printf("%-52s %8.2f x   (at most 2)\n", "  p99 against its p50", rounds_median(&far99) / p50);
	printf("%-52s %10.0f /s, p99 %.0f us   (at least 50000)\n", "random reads, a quarter local",
	       rounds_median(&reads), rounds_median(&read99));
	printf("%-52s %10.0f /s, p99 %.0f us   (at least 40000)\n", "random writes, a quarter local",
	       rounds_median(&writes), rounds_median(&write99));
	printf("%-52s %10.0f /s\n", "random reads by 16 threads, a quarter local", rounds_median(&threads));
	_Static_assert(THREADS == 16, "as it says");
	printf("%-52s %10.0f /s   (at least 250000)\n", "sequential scan, pages", rounds_median(&scans));
	printf("%-52s %8.3f     (at most 1)\n", "peak of resident memory, of the budget", peak);
	return 0;
}
