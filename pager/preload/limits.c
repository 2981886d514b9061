/*
 * limits: the limit of a program's address space (RLIMIT_AS, `ulimit -v`).
 *
 * Theory of operation. The window takes more address space than most limits allow. So the kernel's limit is the
 * program's limit and farpage's share together. With it, the kernel bounds the program's memory outside the window. The
 * kernel counts the whole window as in use, so limits_allow() bounds the memory that is in use inside the window.
 *
 * The program's calls translate between the two limits. The kernel compares limits in pages, and ignores their lowest
 * 12 bits. A raised limit has MARK in these bits, so that a program sees after exec that the limit is a raised one.
 * limits_begin() raises a limit without MARK, which was set outside farpage.
 *
 * If a program limits another process by prlimit(2), that limit is not raised, because the other process may not have
 * this library. If it has, it cannot map memory afterwards.
 */
#undef _FILE_OFFSET_BITS /* with it, getrlimit would be another name for getrlimit64, and this file defines both */
#include "pager/preload/preload.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BELOW_PAGE ((rlim64_t)WINDOW_PAGE - 1)
#define MARK ((rlim64_t)0xfa7)

/* Address space that farpage itself uses at most, besides the window: heap of near threads (near_heap.c), tables of
   about 24 bytes for each page of the window, buffers, stacks. */
#define BESIDE_WINDOW(window) (((rlim64_t)80 << 30) + (window) / 64)

static rlim64_t share; /* farpage's address space in bytes, or 0: the library is not configured */
static bool limited;   /* the program may have a limit. Atomic. Never false again */

static int kernel_limit(pid_t pid, int resource, const struct rlimit64 *limits, struct rlimit64 *ret_old)
{
	return (int)syscall(SYS_prlimit64, pid, resource, limits, ret_old);
}

static bool is_raised(rlim64_t limit)
{
	return limit != RLIM64_INFINITY && (limit & BELOW_PAGE) == MARK && limit >= share;
}

static rlim64_t raise_limit(rlim64_t limit)
{
	if (limit >= RLIM64_INFINITY - share - WINDOW_PAGE)
		return RLIM64_INFINITY;
	return (limit & ~BELOW_PAGE) + share + MARK;
}

static rlim64_t programs_limit(rlim64_t limit)
{
	return is_raised(limit) ? limit - share - MARK : limit;
}

static struct rlimit64 programs_limits(const struct rlimit64 *kernels)
{
	return (struct rlimit64){programs_limit(kernels->rlim_cur), programs_limit(kernels->rlim_max)};
}

/* Sets this process's limits. Without CAP_SYS_RESOURCE, a hard limit that is not raised stays as it is, and bounds the
   soft limit. Returns 0, or -1 with errno. */
static int set_raised(struct rlimit64 limits)
{
	struct rlimit64 now;

	if (!kernel_limit(0, RLIMIT_AS, &limits, NULL))
		return 0;
	if (errno != EPERM || kernel_limit(0, RLIMIT_AS, NULL, &now))
		return -1;
	if (programs_limit(limits.rlim_max) > programs_limit(now.rlim_max)) {
		errno = EPERM;
		return -1;
	}
	limits.rlim_max = now.rlim_max;
	if (limits.rlim_cur > limits.rlim_max)
		limits.rlim_cur = limits.rlim_max;
	return kernel_limit(0, RLIMIT_AS, &limits, NULL);
}

bool limits_allow(uint64_t bytes)
{
	struct rlimit64 limits;

	if (!__atomic_load_n(&limited, __ATOMIC_RELAXED) || kernel_limit(0, RLIMIT_AS, NULL, &limits))
		return true;
	return bytes <= programs_limit(limits.rlim_cur);
}

/* Sets this process's limits to the program's @limits, raised. Returns 0, or -1 with errno. */
static int set_own(const struct rlimit64 *limits)
{
	if (limits->rlim_cur > limits->rlim_max) {
		errno = EINVAL;
		return -1;
	}
	if (limits->rlim_cur != RLIM64_INFINITY)
		__atomic_store_n(&limited, true, __ATOMIC_RELAXED);
	return set_raised((struct rlimit64){raise_limit(limits->rlim_cur), raise_limit(limits->rlim_max)});
}

void limits_begin(size_t window)
{
	struct rlimit64 limits;

	share = (window + BESIDE_WINDOW(window)) & ~BELOW_PAGE;
	if (kernel_limit(0, RLIMIT_AS, NULL, &limits) || limits.rlim_cur == RLIM64_INFINITY)
		return;
	limits = programs_limits(&limits);
	set_own(&limits); /* if this fails, the window cannot be reserved either */
}

/* --- The program's calls ------------------------------------------------------------------------------------------ */

PRELOAD_EXPORT int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limits,
			     struct rlimit64 *ret_old)
{
	struct rlimit64 old;

	if (resource != RLIMIT_AS || !share)
		return kernel_limit(pid, resource, limits, ret_old);
	bool own = !pid || pid == getpid();
	if (kernel_limit(pid, resource, own ? NULL : limits, &old) || (own && limits && set_own(limits)))
		return -1;
	if (ret_old)
		*ret_old = programs_limits(&old);
	return 0;
}

PRELOAD_EXPORT int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *ret_limits)
{
	return prlimit64(0, resource, NULL, ret_limits);
}

PRELOAD_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limits)
{
	return prlimit64(0, resource, limits, NULL);
}

/* On 64-bit machines, the structs of the two names are the same. */
_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "rlim_t has 64 bits");

PRELOAD_EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limits, struct rlimit *ret_old)
{
	return prlimit64(pid, resource, (const struct rlimit64 *)limits, (struct rlimit64 *)ret_old);
}

PRELOAD_EXPORT int getrlimit(__rlimit_resource_t resource, struct rlimit *ret_limits)
{
	return getrlimit64(resource, (struct rlimit64 *)ret_limits);
}

PRELOAD_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limits)
{
	return setrlimit64(resource, (const struct rlimit64 *)limits);
}
