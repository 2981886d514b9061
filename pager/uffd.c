#include "pager/uffd.h"

#include "common/format.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Older kernel headers, such as Debian 12's, do not define these features. */
#ifndef UFFDIO_MOVE
#define UFFD_FEATURE_MOVE (1ull << 16)
#define UFFDIO_MOVE_MODE_DONTWAKE (1ull << 0)
struct uffdio_move {
	__u64 dst, src, len, mode;
	__s64 move;
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#endif
#ifndef UFFDIO_POISON
#define UFFD_FEATURE_POISON (1ull << 14)
struct uffdio_poison {
	struct uffdio_range range;
	__u64 mode;
	__s64 updated;
};
#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
#endif

int uffd_new(int flags)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | flags);

	if (fd >= 0)
		return fd;
	int error = errno;
	/* ENOSYS may come from a container's seccomp filter. */
	if (error != EPERM && error != ENOSYS)
		return -error;
	/* From Linux 6.1 on, a process that may open /dev/userfaultfd gets a descriptor without a privilege. */
	int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return -error;
	fd = ioctl(device, _IO(0xAA, 0x00), O_CLOEXEC | flags); /* USERFAULTFD_IOC_NEW */
	error = errno;
	close(device);
	return fd >= 0 ? fd : -error;
}

const char *uffd_lacks(int error)
{
	if (error == -EPERM)
		return "no right to use userfaultfd: run as root, or have root do `sysctl "
		       "vm.unprivileged_userfaultfd=1` or give access to /dev/userfaultfd (to a container: --device "
		       "/dev/userfaultfd)";
	if (error == -ENOSYS)
		return "no userfaultfd: it needs Linux 5.7 or newer with CONFIG_USERFAULTFD, and in some containers "
		       "--device /dev/userfaultfd";
	return NULL;
}

int uffd_explain(int error)
{
	if (uffd_lacks(error))
		log_error("%s", uffd_lacks(error));
	else if (error < 0)
		log_error("userfaultfd: %s", format_errno(error));
	return error;
}

/* Asks for the kernel's features, on a descriptor of its own, because UFFDIO_API can be called only once per
   descriptor. */
static int probe_features(uint64_t *ret_features)
{
	int fd = uffd_new(O_NONBLOCK);

	if (fd < 0)
		return fd;
	struct uffdio_api api = {.api = UFFD_API};
	int result = ioctl(fd, UFFDIO_API, &api) ? -errno : 0;
	close(fd);
	if (result == 0)
		*ret_features = api.features;
	return result;
}

/* Read before the program runs, because the program may move its environment to memory that becomes far. A forked
   child's watcher (preload/child.c) opens a mover, and must not touch far memory. */
static bool move_forbidden;

static void __attribute__((constructor)) read_environment(void)
{
	move_forbidden = getenv("FARPAGE_NO_MOVE");
}

static bool wants_move(uint64_t features)
{
	return (features & UFFD_FEATURE_MOVE) && !move_forbidden;
}

bool uffd_can_move(void)
{
	uint64_t has;

	return probe_features(&has) || wants_move(has);
}

static int open_with(uint64_t features)
{
	int fd = uffd_new(O_NONBLOCK);

	if (fd < 0)
		return fd;
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	if (ioctl(fd, UFFDIO_API, &api)) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

static int register_range(int fd, void *base, size_t length, uint64_t mode)
{
	struct uffdio_register range = {.range = {(uintptr_t)base, length}, .mode = mode};

	return ioctl(fd, UFFDIO_REGISTER, &range) ? -errno : 0;
}

int uffd_register(int fd, void *base, size_t length)
{
	return register_range(fd, base, length, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
}

int uffd_open_mover(void *landing, size_t length)
{
	/* UFFDIO_API answers EINVAL if the kernel lacks a feature. */
	int mover = move_forbidden ? -EINVAL : open_with(UFFD_FEATURE_MOVE);
	if (mover == -EINVAL)
		return -EOPNOTSUPP;
	int result = mover < 0 ? mover : register_range(mover, landing, length, UFFDIO_REGISTER_MODE_MISSING);
	if (result < 0 && mover >= 0)
		close(mover);
	return result < 0 ? result : mover;
}

int uffd_open(void *base, size_t length, void *landing, size_t landing_length, struct uffd *ret_uffd)
{
	struct uffd uffd = {.fd = -1, .mover = -1};
	uint64_t has = 0;
	int result = probe_features(&has);

	if (result)
		return result;
	uffd.can_poison = has & UFFD_FEATURE_POISON;
	uint64_t want =
	    UFFD_FEATURE_THREAD_ID | UFFD_FEATURE_PAGEFAULT_FLAG_WP | (uffd.can_poison ? UFFD_FEATURE_POISON : 0);
	uffd.fd = open_with(want | UFFD_FEATURE_EVENT_FORK);
	uffd.sees_forks = uffd.fd >= 0;
	if (uffd.fd == -EPERM)
		uffd.fd = open_with(want);
	if (uffd.fd < 0)
		return uffd.fd;
	result = uffd_register(uffd.fd, base, length);
	if (result)
		goto close_uffd;
	if (wants_move(has)) {
		result = uffd.mover = uffd_open_mover(landing, landing_length);
		if (result < 0)
			goto close_uffd;
	}
	*ret_uffd = uffd;
	return 0;

close_uffd:
	uffd_close(&uffd);
	return result;
}

void uffd_close(struct uffd *uffd)
{
	if (uffd->mover >= 0)
		close(uffd->mover);
	if (uffd->fd >= 0)
		close(uffd->fd);
	uffd->fd = uffd->mover = -1;
}

int uffd_read(int fd, struct uffd_message *messages, unsigned max)
{
	struct uffd_msg raw[16];

	if (max > 16)
		max = 16;
	ssize_t size = read(fd, raw, max * sizeof raw[0]);
	if (size < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	unsigned count = (unsigned)size / sizeof raw[0];
	for (unsigned i = 0; i < count; i++) {
		struct uffd_message *message = &messages[i];

		*message = (struct uffd_message){.kind = UFFD_OTHER, .child = -1};
		if (raw[i].event == UFFD_EVENT_PAGEFAULT) {
			uint64_t flags = raw[i].arg.pagefault.flags;

			message->kind = flags & UFFD_PAGEFAULT_FLAG_WP ? UFFD_PROTECTED : UFFD_MISSING;
			message->write = flags & UFFD_PAGEFAULT_FLAG_WRITE;
			message->thread = (pid_t)raw[i].arg.pagefault.feat.ptid;
			message->address = raw[i].arg.pagefault.address;
		} else if (raw[i].event == UFFD_EVENT_FORK) {
			message->kind = UFFD_FORKED;
			message->child = (int)raw[i].arg.fork.ufd;
		}
	}
	return (int)count;
}

static int copy_pages(int fd, void *to, const void *from, size_t length, uint64_t mode, size_t *ret_done)
{
	size_t done = 0;
	int result = 0;

	while (done < length) {
		struct uffdio_copy copy = {
		    .dst = (uintptr_t)to + done, .src = (uintptr_t)from + done, .len = length - done, .mode = mode};

		if (ioctl(fd, UFFDIO_COPY, &copy) == 0) {
			done = length;
			break;
		}
		if (errno == EAGAIN && copy.copy > 0) {
			/* Only a part of the range was copied. The next UFFDIO_COPY, of the rest, returns the
			   reason. */
			done += (size_t)copy.copy;
			continue;
		}
		result = -errno;
		break;
	}
	if (ret_done)
		*ret_done = done;
	return result;
}

int uffd_copy(int fd, void *to, const void *from, size_t length, size_t *ret_done)
{
	return copy_pages(fd, to, from, length, 0, ret_done);
}

int uffd_copy_protected(int fd, void *to, const void *from, size_t length, size_t *ret_done)
{
	return copy_pages(fd, to, from, length, UFFDIO_COPY_MODE_WP, ret_done);
}

int uffd_wake(int fd, void *address, size_t length)
{
	struct uffdio_range range = {(uintptr_t)address, length};

	return ioctl(fd, UFFDIO_WAKE, &range) ? -errno : 0;
}

int uffd_poison(const struct uffd *uffd, int fd, void *address, size_t length)
{
	if (!uffd->can_poison)
		return -EOPNOTSUPP;
	struct uffdio_poison poison = {.range = {(uintptr_t)address, length}};
	return ioctl(fd, UFFDIO_POISON, &poison) ? -errno : 0;
}

ssize_t uffd_take(const struct uffd *uffd, void *landing, void *from, size_t length)
{
	if (uffd->mover < 0)
		return -EOPNOTSUPP;
	struct uffdio_move move = {
	    .dst = (uintptr_t)landing, .src = (uintptr_t)from, .len = length, .mode = UFFDIO_MOVE_MODE_DONTWAKE};
	if (ioctl(uffd->mover, UFFDIO_MOVE, &move) == 0)
		return (ssize_t)length;
	int error = errno;
	/* After a partial move the kernel answers EAGAIN and the length that was moved. If nothing was moved, the
	   length is -errno. */
	return move.move > 0 ? (ssize_t)move.move : -error;
}

int uffd_protect(const struct uffd *uffd, void *address, size_t length, bool protect)
{
	struct uffdio_writeprotect range = {.range = {(uintptr_t)address, length},
					    .mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

	return ioctl(uffd->fd, UFFDIO_WRITEPROTECT, &range) ? -errno : 0;
}
