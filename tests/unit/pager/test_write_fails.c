/* write_fails: writes that fail. One fails after its page has come back. A forked child still sees the contents that
   were being written. Others fail because the donors are full, while this process pauses. */
#include "pager_over.h"
#include "tests/lib/tap.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define TIMEOUT_MS 1000u

/* A wrapper of another store. It takes one write, keeps it, and fails it when the test says so. */
struct failing_store {
	struct store base;
	struct store *inner;
	_Atomic bool takes, has, fails;
	_Atomic unsigned full; /* number of further writes that fail with -ENOSPC, the last one after a pause */
	_Atomic uint64_t cookie;
};

struct failing_queue {
	struct store_queue base;
	struct store_queue *inner;
	bool holds; /* the kept write came through this queue */
};

static struct failing_store *store_of(const struct store *store)
{
	return (struct failing_store *)(uintptr_t)store;
}

static struct failing_queue *queue_of(const struct store_queue *queue)
{
	return (struct failing_queue *)(uintptr_t)queue;
}

static int failing_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	return store_register(store_of(store)->inner, base, length, ret_buffer);
}

static void failing_deregister(struct store *store, struct store_buffer *buffer)
{
	store_deregister(store_of(store)->inner, buffer);
}

static int failing_queue_open(struct store *store, struct store_queue **ret_queue)
{
	struct failing_queue *queue = calloc(1, sizeof *queue);
	queue->base.store = store;
	*ret_queue = &queue->base;
	return store_queue_open(store_of(store)->inner, &queue->inner);
}

static void failing_queue_close(struct store_queue *queue)
{
	store_queue_close(queue_of(queue)->inner);
	free(queue);
}

static int failing_submit(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	struct failing_store *store = store_of(queue->store);
	if (count && ios[0].op == STORE_WRITE && (atomic_exchange(&store->takes, false) || atomic_load(&store->full))) {
		atomic_store(&store->cookie, ios[0].cookie);
		queue_of(queue)->holds = true;
		atomic_store(&store->has, true);
		return 1;
	}
	return store_submit(queue_of(queue)->inner, ios, count);
}

static bool poll_full(struct store_queue *queue, struct store_done *ret_done)
{
	struct failing_store *store = store_of(queue->store);
	if (!queue_of(queue)->holds || !atomic_load(&store->full))
		return false;
	if (atomic_fetch_sub(&store->full, 1) == 1)
		usleep((TIMEOUT_MS + 300) * 1000);
	queue_of(queue)->holds = false;
	*ret_done = (struct store_done){.cookie = atomic_load(&store->cookie), .status = -ENOSPC};
	return true;
}

static int failing_poll(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	struct failing_store *store = store_of(queue->store);
	if (max && poll_full(queue, dones))
		return 1;
	if (max && queue_of(queue)->holds && atomic_load(&store->fails)) {
		queue_of(queue)->holds = false;
		dones[0] = (struct store_done){.cookie = atomic_load(&store->cookie), .status = -EIO};
		return 1;
	}
	return store_poll(queue_of(queue)->inner, dones, max);
}

static int failing_queue_fd(const struct store_queue *queue)
{
	return store_queue_fd(queue_of(queue)->inner);
}

static int failing_arm(struct store_queue *queue)
{
	return store_arm(queue_of(queue)->inner);
}

static bool failing_quiet(const struct store_queue *queue)
{
	return store_quiet(queue_of(queue)->inner);
}

static void failing_discard(struct store *store, uint64_t page, uint64_t count)
{
	store_discard(store_of(store)->inner, page, count);
}

static bool failing_same(const struct store *store, uint64_t page, const void *data)
{
	return store_same(store_of(store)->inner, page, data);
}

static void failing_stats(const struct store *store, struct store_stats *ret_stats)
{
	store_stats(store_of(store)->inner, ret_stats);
	ret_stats->bytes_available += MIB; /* a donor has room, so the pager tries writes again */
}

static void failing_close(struct store *store)
{
	(void)store;
}

static const struct store_ops failing_ops = {
    .register_buffer = failing_register,
    .deregister_buffer = failing_deregister,
    .queue_open = failing_queue_open,
    .queue_close = failing_queue_close,
    .submit = failing_submit,
    .poll = failing_poll,
    .queue_fd = failing_queue_fd,
    .arm = failing_arm,
    .quiet = failing_quiet,
    .discard = failing_discard,
    .same = failing_same,
    .stats = failing_stats,
    .close = failing_close,
};

struct sender {
	struct farpage *farpage;
	char *memory;
};

static void *send_out(void *argument)
{
	struct sender *sender = argument;
	farpage_advise(sender->farpage, sender->memory, STORE_PAGE, FARPAGE_PAGEOUT);
	return NULL;
}

/* Forks a child that waits for a byte on @ret_go and then exits with the first byte of @memory. Returns the child. */
static pid_t fork_reader(const volatile char *memory, int *ret_go)
{
	int pipe_ends[2];
	char byte;
	if (pipe(pipe_ends))
		return -1;
	pid_t child = fork();
	if (child == 0)
		_exit(read(pipe_ends[0], &byte, 1) == 1 ? *memory : 99);
	close(pipe_ends[0]);
	*ret_go = pipe_ends[1];
	return child;
}

static void a_child_sees_the_contents_of_a_failed_write(struct over *over, struct failing_store *store)
{
	if (!CAN_FORK) {
		tap_skip("a child that was forked during a write ends", CANNOT_FORK);
		return;
	}
	pthread_t thread;
	int go = -1, status = -1;
	volatile char *memory = over_map(over, STORE_PAGE);
	struct sender sender = {over->farpage, (char *)(uintptr_t)memory};
	*memory = 1;
	send_out(&sender);
	*memory = 2;
	atomic_store(&store->takes, true);
	pthread_create(&thread, NULL, send_out, &sender);
	while (!atomic_load(&store->has))
		sched_yield();
	pid_t child = fork_reader(memory, &go);
	*memory = 3; /* the page comes back from the buffer whose write is in flight */
	atomic_store(&store->fails, true);
	pthread_join(thread, NULL);
	ok(write(go, "", 1) == 1 && waitpid(child, &status, 0) == child, "a child that was forked during a write ends");
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 2,
	   "a child forked during a write that fails sees the written contents (status %x)", (unsigned)status);
	ok(*memory == 3, "a parent sees what it wrote after a fork during a write that fails");
	close(go);
}

static void a_pause_between_refused_writes_is_survived(struct over *over, struct failing_store *store)
{
	char *memory = over_map(over, STORE_PAGE);
	struct sender sender = {over->farpage, memory};
	*memory = 1;
	atomic_store(&store->full, 2);
	send_out(&sender);
	ok(atomic_load(&store->full) == 0 && *(volatile char *)memory == 1,
	   "a program survives a pause between two writes that full donors refuse");
}

int main(void)
{
	struct farpage_options options = {
	    .local = 8 * MIB, .timeout_ms = TIMEOUT_MS, .unsafe_dio = getenv("FARPAGE_NO_MOVE")};
	struct failing_store store = {.takes = false};
	struct over over = {0};
	store_open_memory(16 * MIB / STORE_PAGE, &over.inner);
	store.inner = over.inner;
	store.base = (struct store){.ops = &failing_ops, .pages = over.inner->pages};
	over.store = &store.base;
	window_reserve(&over.window, 16 * MIB);
	int result = pager_open_store(&options, over.store, &over.window, NULL, &over.farpage);
	if (result == -EPERM || result == -ENOSYS)
		return tap_skip_all("no right to userfaultfd");
	if (ok(result == 0, "a pager opens over a store that fails writes")) {
		a_child_sees_the_contents_of_a_failed_write(&over, &store);
		a_pause_between_refused_writes_is_survived(&over, &store);
	}
	over_close(&over);
	return tap_done();
}
