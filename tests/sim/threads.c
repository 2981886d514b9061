/*
 * threads: simulates the calls that block, wake threads, read the clock and get random numbers.
 *
 * Theory of operation. The real sources of client/ and memserver/ are linked unchanged. But the linker replaces some
 * functions of libc and farpage that they call by functions of this file (--wrap, see meson.build). Outside of a
 * task, each of these calls the original. If new code blocks in another call, that call needs a line in meson.build
 * and a function here.
 *
 * Threads: one.
 */
#include "client/donor/about.h"
#include "common/clock.h"
#include "common/machine.h"
#include "tests/sim/descriptors.h"
#include "tests/sim/machines.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DESCRIPTORS 1024

uint64_t clock_now(void)
{
	task_look();
	return task_now();
}

void __wrap_random_secret(void *bytes, uint64_t size);
void __wrap_random_secret(void *bytes, uint64_t size)
{
	world_bytes(bytes, size);
}

int machine_memory_read(struct machine_memory *ret_memory)
{
	*ret_memory = (struct machine_memory){.total = UINT64_MAX / 4};
	ret_memory->available = machine_is_short(task_process()->host) ? 0 : UINT64_MAX / 4;
	return 0;
}

/* The simulator's own process would be another one in each run. */
void about_find(const char *user, const char *command, struct wire_about *ret_about)
{
	(void)user, (void)command;
	*ret_about = (struct wire_about){.host = "simulated", .user = "nobody", .command = "client", .pid = 1};
}

/* --- Threads -------------------------------------------------------------------------------------------------- */

int __real_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	if (!task_self())
		return __real_pthread_create(ret_thread, attributes, run, argument);
	(void)attributes;
	*ret_thread = (pthread_t)task_create(task_process(), "thread", run, argument);
	return 0;
}

/* Ignores signal masks, because all tasks share the simulator's thread. */
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before)
{
	(void)how, (void)set;
	if (ret_before)
		sigemptyset(ret_before);
	return 0;
}

int __real_pthread_join(pthread_t thread, void **ret_value);
int __wrap_pthread_join(pthread_t thread, void **ret_value);
int __wrap_pthread_join(pthread_t thread, void **ret_value)
{
	struct task *task = (struct task *)thread;

	if (!task_self())
		return __real_pthread_join(thread, ret_value);
	while (!task_is_over(task))
		task_block_on(task);
	if (ret_value)
		*ret_value = NULL;
	return 0;
}

int __real_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	if (!task_self())
		return __real_pthread_setname_np(thread, name);
	(void)thread, (void)name;
	return 0;
}

/* The task that holds the mutex may have been interrupted, so this waits. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (!task_self())
		return __real_pthread_mutex_lock(mutex);
	task_pause();
	while (pthread_mutex_trylock(mutex))
		task_block(task_now() + US);
	return 0;
}

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	if (!task_self())
		return __real_pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
	task_block_on(cond);
	return __wrap_pthread_mutex_lock(mutex);
}

int __real_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	if (!task_self())
		return __real_pthread_cond_signal(cond);
	task_wake_all(cond);
	return 0;
}

int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (!task_self())
		return __real_pthread_cond_broadcast(cond);
	task_wake_all(cond);
	return 0;
}

int __real_sem_wait(sem_t *semaphore);
int __wrap_sem_wait(sem_t *semaphore);
int __wrap_sem_wait(sem_t *semaphore)
{
	if (!task_self())
		return __real_sem_wait(semaphore);
	while (sem_trywait(semaphore))
		task_block_on(semaphore);
	return 0;
}

int __real_sem_post(sem_t *semaphore);
int __wrap_sem_post(sem_t *semaphore);
int __wrap_sem_post(sem_t *semaphore)
{
	int status = __real_sem_post(semaphore);

	task_wake_all(semaphore);
	return status;
}

/* The slab worker yields between the pieces of memory that it makes ready. So a yield takes the time of one piece. */
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	uint64_t until;

	if (!task_self())
		return __real_sched_yield();
	until = task_now() + machine_prepare_ns(task_process()->host);
	while (task_now() < until)
		task_block(until);
	return 0;
}

/* --- Descriptors ---------------------------------------------------------------------------------------------- */

static struct descriptor {
	bool open;
	uint64_t value;
	bool (*readable)(const void *);
	const void *what;
	void (*watch)(void *);
	void *watcher;
	struct task *sleeper;
} descriptors[DESCRIPTORS];
static unsigned descriptor_count;

int __real_eventfd(unsigned value, int flags);
int __real_close(int fd);

int descriptor_open(uint64_t value, bool (*readable)(const void *), const void *what)
{
	int fd = __real_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0 || fd >= DESCRIPTORS)
		return -1;
	descriptors[fd] = (struct descriptor){.open = true, .value = value, .readable = readable, .what = what};
	descriptor_count++;
	return fd;
}

void descriptor_close(int fd)
{
	descriptor_count -= descriptors[fd].open;
	descriptors[fd].open = false;
	__real_close(fd);
}

static struct descriptor *descriptor_at(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS && descriptors[fd].open ? &descriptors[fd] : NULL;
}

bool descriptor_is_readable(int fd)
{
	const struct descriptor *descriptor = descriptor_at(fd);

	return descriptor && (descriptor->readable ? descriptor->readable(descriptor->what) : descriptor->value > 0);
}

void descriptor_watch(int fd, void (*call)(void *), void *what)
{
	if (descriptor_at(fd)) {
		descriptors[fd].watch = call;
		descriptors[fd].watcher = what;
	}
}

void descriptor_changed(int fd)
{
	const struct descriptor *descriptor = descriptor_at(fd);

	if (!descriptor || !descriptor_is_readable(fd))
		return;
	if (descriptor->watch)
		descriptor->watch(descriptor->watcher);
	task_wake(descriptor->sleeper);
}

unsigned descriptors_open(void)
{
	return descriptor_count;
}

void descriptors_forget(void)
{
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		if (descriptors[fd].open)
			descriptor_close(fd);
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
	if (!descriptor_at(fd))
		return __real_close(fd);
	descriptor_close(fd);
	return 0;
}

int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
	(void)flags;
	return descriptor_open(value, NULL, NULL);
}

int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value)
{
	task_pause();
	if (!descriptor_at(fd))
		return -1;
	descriptors[fd].value += value;
	descriptor_changed(fd);
	return 0;
}

int __wrap_eventfd_read(int fd, eventfd_t *ret_value);
int __wrap_eventfd_read(int fd, eventfd_t *ret_value)
{
	if (!descriptor_at(fd) || !descriptors[fd].value) {
		errno = EAGAIN;
		return -1;
	}
	*ret_value = descriptors[fd].value;
	descriptors[fd].value = 0;
	return 0;
}

/* Does the same as poll(2), for tasks. Waits until @until at most. */
static int descriptors_poll(struct pollfd *fds, nfds_t count, uint64_t until)
{
	for (;;) {
		int ready = 0;

		for (nfds_t i = 0; i < count; i++) {
			fds[i].revents = descriptor_is_readable(fds[i].fd) ? POLLIN : 0;
			ready += fds[i].revents != 0;
		}
		if (ready || task_now() >= until)
			return ready;
		if (task_process()->dead) {
			task_block(until);
			return 0;
		}
		for (nfds_t i = 0; i < count; i++)
			if (descriptor_at(fds[i].fd))
				descriptors[fds[i].fd].sleeper = task_self();
		task_block(until);
		for (nfds_t i = 0; i < count; i++)
			if (descriptor_at(fds[i].fd))
				descriptors[fds[i].fd].sleeper = NULL;
	}
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (!task_self())
		return __real_poll(fds, count, timeout_ms);
	return descriptors_poll(fds, count, timeout_ms < 0 ? UINT64_MAX : task_now() + (uint64_t)timeout_ms * MS);
}

int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	uint64_t until = UINT64_MAX;

	if (!task_self())
		return __real_ppoll(fds, count, timeout, signals);
	if (timeout)
		until = task_now() + (uint64_t)timeout->tv_sec * SECOND + (uint64_t)timeout->tv_nsec;
	return descriptors_poll(fds, count, until);
}
