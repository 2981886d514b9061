/*
 * bench_donors: what a number of donors costs one client. See donors.py, which runs it and prints its figures.
 *
 *     bench_donors KEY SECONDS URI...
 *
 * First a store with one queue writes and reads its first page. Then it writes a page in two chunks for each donor, so
 * that most donors have a slab, and rests for SECONDS. Then a pager over the same donors answers random faults. Each
 * figure is a line "NAME VALUE".
 */
#include "client/far.h"
#include "common/clock.h"
#include "common/random.h"
#include "farpage/farpage.h"
#include "tests/bench/figures.h"
#include "wire/auth.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SLAB_PAGES (UINT64_C(1) << 8)
#define CHUNKS_PER_DONOR 2u
#define WRITES_AT_ONCE 64u
#define READS 10000u
#define NS_PER_MS UINT64_C(1000000)
#define SPIN_NS UINT64_C(50000)
#define WAIT_NS UINT64_C(10000000000)
#define LOCAL ((size_t)16 << 20)
#define FAR_BYTES_PER_DONOR ((size_t)40 << 20)
#define FAR_BYTES_MAX ((size_t)768 << 20)

static struct samples samples;
static struct random_state random_source;

static void print(const char *name, double value)
{
	printf("%s %.3f\n", name, value);
	fflush(stdout);
}

static double status_of(const char *name)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	double value = 0;

	needed(status);
	while (fgets(line, sizeof line, status))
		if (!strncmp(line, name, strlen(name)))
			value = strtod(line + strlen(name) + 1, NULL);
	fclose(status);
	return value;
}

static double descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	double count = -3; /* ".", ".." and the folder's own */

	needed(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Prints what the client has now: resident memory in KiB, descriptors, threads. */
static void print_holdings(const char *when)
{
	char name[64];

	snprintf(name, sizeof name, "%s_anon_kib", when);
	print(name, status_of("RssAnon"));
	snprintf(name, sizeof name, "%s_descriptors", when);
	print(name, descriptors());
	snprintf(name, sizeof name, "%s_threads", when);
	print(name, status_of("Threads"));
}

/* Sleeps until the queue has news, at most until @until. A queue must be polled even if no request is in flight. */
static void rest(struct store_queue *queue, uint64_t until)
{
	struct pollfd wait = {.fd = store_queue_fd(queue), .events = POLLIN};
	const uint64_t now = clock_now();

	if (now < until && store_arm(queue) == 0)
		poll(&wait, 1, (int)((until - now) / NS_PER_MS) + 1);
}

static void idle(struct store_queue *queue, unsigned seconds)
{
	const uint64_t until = clock_now() + seconds * 1000 * NS_PER_MS;
	struct store_done done;

	while (clock_now() < until) {
		needed(store_poll(queue, &done, 1) == 0);
		rest(queue, until);
	}
}

static void io(struct store_queue *queue, enum store_op op, uint64_t page, void *data, struct store_buffer *buffer)
{
	const struct store_io io = {.op = op, .page = page, .count = 1, .data = data, .buffer = buffer};
	const uint64_t begin = clock_now();
	struct store_done done;
	int count;

	needed(store_submit(queue, &io, 1) == 1);

	while (!(count = store_poll(queue, &done, 1)))
		if (clock_now() - begin > SPIN_NS)
			rest(queue, begin + WAIT_NS);
	needed(count == 1 && done.status == 0);
}

/* Writes a page to each chunk, some at a time, because each needs a slab first. */
static void chunks_write(struct store_queue *queue, uint64_t chunks, void *data, struct store_buffer *buffer)
{
	uint64_t begun = 0, ended = 0;

	while (ended < chunks) {
		const struct store_io io = {
		    .op = STORE_WRITE, .page = begun * SLAB_PAGES, .count = 1, .data = data, .buffer = buffer};
		struct store_done done;

		if (begun < chunks && begun - ended < WRITES_AT_ONCE && store_submit(queue, &io, 1) == 1) {
			begun++;
			continue;
		}
		if (store_poll(queue, &done, 1) == 1) {
			needed(done.status == 0);
			ended++;
		} else {
			rest(queue, clock_now() + WAIT_NS);
		}
	}
}

static double switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_nvcsw;
}

static void store_run(const struct far_config *config, unsigned seconds)
{
	const uint64_t begin = clock_now(), chunks = (uint64_t)config->donor_count * CHUNKS_PER_DONOR;
	uint8_t *bytes = mmap(NULL, STORE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct store_buffer *buffer;
	struct store_queue *queue;
	struct store *store;
	double busy, waits;

	needed(bytes != MAP_FAILED);
	needed(far_open(config, &store) == 0);
	print("open_ms", (double)(clock_now() - begin) / 1e6);
	needed(store_queue_open(store, &queue) == 0 && store_register(store, bytes, STORE_PAGE, &buffer) == 0);
	memset(bytes, 1, STORE_PAGE);
	io(queue, STORE_WRITE, 0, bytes, buffer);
	io(queue, STORE_READ, 0, bytes, buffer);
	print("first_ms", (double)(clock_now() - begin) / 1e6);
	print_holdings("open");
	chunks_write(queue, chunks, bytes, buffer);
	print_holdings("used");
	printf("idle\n"); /* donors.py now watches the donors */
	fflush(stdout);
	idle(queue, 1);
	busy = processor_ms();
	waits = switches();
	idle(queue, seconds);
	print("idle_ms", (processor_ms() - busy) / seconds);
	print("idle_switches", (switches() - waits) / seconds);
	samples.count = 0;
	for (unsigned i = 0; i < READS; i++) {
		uint64_t start, page = random_below(&random_source, chunks) * SLAB_PAGES;

		start = clock_now();
		io(queue, STORE_READ, page, bytes, buffer);
		samples_add(&samples, clock_now() - start);
	}
	samples_sort(&samples);
	print("read_p50", samples_quantile(&samples, 500));
	print("read_p99", samples_quantile(&samples, 990));
	store_queue_close(queue);
	store_deregister(store, buffer);
	store_close(store);
	munmap(bytes, STORE_PAGE);
}

/* Times faults on random pages of far memory, of which only LOCAL bytes are local. */
static void pager_run(const struct far_config *config, const char *key)
{
	size_t far_bytes = config->donor_count * FAR_BYTES_PER_DONOR;
	struct farpage_options options = {.local = LOCAL,
					  .donors = config->donors,
					  .donor_count = config->donor_count,
					  .prefetch_pages = 1,
					  .key_file = key};
	const uint64_t begin = clock_now();
	struct farpage *farpage;
	volatile uint64_t *word;
	void *memory;

	if (far_bytes > FAR_BYTES_MAX)
		far_bytes = FAR_BYTES_MAX;
	needed(farpage_open(&options, &farpage) == 0);
	print("pager_open_ms", (double)(clock_now() - begin) / 1e6);
	needed(farpage_map(farpage, far_bytes, &memory) == 0);
	for (size_t i = 0; i < far_bytes; i += STORE_PAGE)
		*(volatile uint64_t *)((uint8_t *)memory + i) = i + 1;
	print_holdings("pager");
	samples.count = 0;
	for (unsigned i = 0; i < READS; i++) {
		size_t page = random_below(&random_source, far_bytes / STORE_PAGE);
		uint64_t start = clock_now();

		word = (volatile uint64_t *)((uint8_t *)memory + page * STORE_PAGE);
		needed(*word == page * STORE_PAGE + 1);
		samples_add(&samples, clock_now() - start);
	}
	samples_sort(&samples);
	print("fault_p50", samples_quantile(&samples, 500));
	print("fault_p99", samples_quantile(&samples, 990));
	farpage_close(farpage);
}

int main(int argc, char **argv)
{
	struct far_config config = {.replicas = 1, .fabric = FABRIC_CONFIG_DEFAULT};
	struct rlimit files;
	uint8_t key[AUTH_KEY_SIZE];

	if (argc < 4)
		return 2;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	random_seed(&random_source, 1);
	/* The samples count as resident memory from the start, and not as that of the donors. */
	memset(&samples, 1, sizeof samples);
	needed(auth_key_load_or_tell(argv[1], key) == 0);
	config.key = key;
	config.donors = (const char *const *)argv + 3;
	config.donor_count = (unsigned)argc - 3;
	print_holdings("before");
	store_run(&config, (unsigned)strtoul(argv[2], NULL, 10));
	pager_run(&config, argv[1]);
	return 0;
}
