/*
 * descriptors: notes which descriptors are farpage's own, so that the program cannot close or replace them
 * (closing.c).
 *
 * Theory of operation. farpage's descriptors are in the program's descriptor table. A program may close descriptors
 * that it did not open (close_range, a loop of close). A program may also place a file at a number that is in use
 * (dup2: `exec 3>file` of a shell). If that number were the window's userfaultfd, far pages would read as zeroes. If it
 * were an eventfd, the pager would write into the program's file.
 *
 * So each new descriptor of farpage is moved to a high number: from FLOOR on, or from half of RLIMIT_NOFILE if that
 * is less. The number is noted until farpage closes the descriptor.
 *
 * The linker (--wrap, in meson.build) replaces farpage's calls that make descriptors by the functions of this file.
 * Calls of the program are not replaced, so only farpage's own descriptors are noted. Two kinds of farpage's
 * descriptors are not moved:
 * - With LTO, --wrap does not reach calls inside farpage. So userfaultfds of children are neither moved nor noted
 *   (uffd_read).
 * - RDMA devices are opened inside librdmacm. farpage notes their descriptors when it first uses the device.
 *
 * Some microseconds pass before farpage has noted a new descriptor. A thread that closes unknown descriptors may close
 * a new connection in that time. farpage then connects again.
 *
 * A forked child does not need its parent's descriptors and may close them. child.c notes those that the child needs. A
 * vfork child shares its parent's memory, so it cannot close noted descriptors either. Its exec closes them.
 *
 * Any thread may call these functions. They take no lock, so a signal handler may call them, too.
 */
#include "pager/preload/preload.h"
#include "pager/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <liburing.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FLOOR 512
#define NUMBERS (1u << 16) /* higher numbers are not noted, because programs do not reach them by chance */
#define WORD_BITS 64u

static uint64_t noted[NUMBERS / WORD_BITS]; /* atomic */

/* --- Notes ------------------------------------------------------------------------------------------------------ */

uint64_t descriptors_find(uint64_t from, uint64_t end)
{
	uint64_t limit = end < NUMBERS ? end : NUMBERS;

	while (from < limit) {
		uint64_t word = __atomic_load_n(&noted[from / WORD_BITS], __ATOMIC_RELAXED) >> (from % WORD_BITS);

		if (word) {
			from += (unsigned)__builtin_ctzll(word);
			return from < end ? from : end;
		}
		from = (from / WORD_BITS + 1) * WORD_BITS;
	}
	return end;
}

bool descriptor_noted(int fd)
{
	return fd >= 0 && descriptors_find((uint64_t)fd, (uint64_t)fd + 1) == (uint64_t)fd;
}

void descriptor_note(int fd)
{
	if ((unsigned)fd < NUMBERS)
		__atomic_fetch_or(&noted[(unsigned)fd / WORD_BITS], UINT64_C(1) << ((unsigned)fd % WORD_BITS),
				  __ATOMIC_RELEASE);
}

void descriptor_forget(int fd)
{
	if ((unsigned)fd < NUMBERS)
		__atomic_fetch_and(&noted[(unsigned)fd / WORD_BITS], ~(UINT64_C(1) << ((unsigned)fd % WORD_BITS)),
				   __ATOMIC_RELEASE);
}

void descriptors_after_in_child(void)
{
	memset(noted, 0, sizeof noted);
}

/* --- Descriptors that farpage makes ------------------------------------------------------------------------------- */

long __real_syscall(long number, ...);
int __real_close(int fd);

static int lowest_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > FLOOR)
		return FLOOR;
	return (int)(limit.rlim_cur / 2);
}

/* Moves @fd, which farpage has just made, to a high number and notes it. Returns the new number. Returns a negative
   @fd unchanged. Returns -1 with errno if the program has closed @fd meanwhile. */
static int descriptor_keep(int fd)
{
	int before = errno, lowest = lowest_number();

	if (fd < 0)
		return fd;
	if (fd < lowest) {
		int high = fcntl(fd, F_DUPFD_CLOEXEC, lowest);

		if (high < 0 && errno == EBADF)
			return -1; /* the program has closed @fd */
		if (high >= 0) {
			__real_syscall(SYS_close, fd);
			fd = high;
		}
		/* If no high number is free, the descriptor stays at its number. */
	}
	descriptor_note(fd);
	errno = before;
	return fd;
}

/* Does the same as descriptor_keep() for a descriptor that a library has made. *@fd is a field of the library's
   struct. */
static void keep_field(int *fd)
{
	int kept = *fd >= 0 && !descriptor_noted(*fd) ? descriptor_keep(*fd) : -1;

	if (kept >= 0)
		*fd = kept;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
	descriptor_forget(fd);
	return (int)__real_syscall(SYS_close, fd);
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (unsigned i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long); /* the kernel ignores arguments that the call does not have */
	va_end(list);
	long result =
	    __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
	return number == SYS_userfaultfd || number == SYS_pidfd_open ? descriptor_keep((int)result) : result;
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	int result = __real_ioctl(fd, request, argument);

	return request == _IO(0xAA, 0x00) ? descriptor_keep(result) : result; /* USERFAULTFD_IOC_NEW */
}

int __real_uffd_read(int fd, struct uffd_message *messages, unsigned max);
int __wrap_uffd_read(int fd, struct uffd_message *messages, unsigned max);
int __wrap_uffd_read(int fd, struct uffd_message *messages, unsigned max)
{
	int count = __real_uffd_read(fd, messages, max);

	for (int i = 0; i < count; i++)
		if (messages[i].kind == UFFD_FORKED)
			keep_field(&messages[i].child);
	return count;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list list;

	va_start(list, flags);
	if (flags & O_CREAT)
		mode = va_arg(list, mode_t);
	va_end(list);
	return descriptor_keep(__real_open64(path, flags, mode));
}

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags)
{
	return descriptor_keep(__real_inotify_init1(flags));
}

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
	return descriptor_keep(__real_eventfd(value, flags));
}

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
	return descriptor_keep(__real_epoll_create1(flags));
}

int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags)
{
	return descriptor_keep(__real_timerfd_create(clock, flags));
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
	return descriptor_keep(__real_socket(domain, type, protocol));
}

int __real_socketpair(int domain, int type, int protocol, int pair[2]);
int __wrap_socketpair(int domain, int type, int protocol, int pair[2]);
int __wrap_socketpair(int domain, int type, int protocol, int pair[2])
{
	int result = __real_socketpair(domain, type, protocol, pair);

	if (result == 0) {
		keep_field(&pair[0]);
		keep_field(&pair[1]);
	}
	return result;
}

/* A forked child and the pager receive descriptors by recvmsg() (pager/pass.c). */
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t got = __real_recvmsg(fd, message, flags);
	struct cmsghdr *header = got > 0 && message->msg_control ? CMSG_FIRSTHDR(message) : NULL;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		int passed;

		memcpy(&passed, CMSG_DATA(header), sizeof passed);
		keep_field(&passed);
		memcpy(CMSG_DATA(header), &passed, sizeof passed);
	}
	return got;
}

/* --- Descriptors that libraries make for farpage ------------------------------------------------------------------ */

int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	int result = __real_io_uring_queue_init(entries, ring, flags);

	if (result == 0) {
		keep_field(&ring->ring_fd);
		ring->enter_ring_fd = ring->ring_fd; /* the two differ only for registered rings */
	}
	return result;
}

/* liburing closes the ring without close(), so __wrap_close() would not notice. */
void __real_io_uring_queue_exit(struct io_uring *ring);
void __wrap_io_uring_queue_exit(struct io_uring *ring);
void __wrap_io_uring_queue_exit(struct io_uring *ring)
{
	descriptor_forget(ring->ring_fd);
	__real_io_uring_queue_exit(ring);
}

struct rdma_event_channel *__real_rdma_create_event_channel(void);
struct rdma_event_channel *__wrap_rdma_create_event_channel(void);
struct rdma_event_channel *__wrap_rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = __real_rdma_create_event_channel();

	if (channel)
		keep_field(&channel->fd);
	return channel;
}

struct ibv_comp_channel *__real_ibv_create_comp_channel(struct ibv_context *context);
struct ibv_comp_channel *__wrap_ibv_create_comp_channel(struct ibv_context *context);
struct ibv_comp_channel *__wrap_ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = __real_ibv_create_comp_channel(context);

	if (channel)
		keep_field(&channel->fd);
	return channel;
}

/* Notes an RDMA device's descriptors, in the first call that farpage makes for the device (verbs_device.c). The
   numbers stay, because librdmacm may share the device with the program. */
int __real_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes);
int __wrap_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes);
int __wrap_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	descriptor_note(context->cmd_fd);
	descriptor_note(context->async_fd);
	return __real_ibv_query_device(context, attributes);
}
