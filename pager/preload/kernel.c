/*
 * kernel: makes the system calls for memory directly, because this library replaces the C functions of these names.
 * Return values and errno are the same. Any thread.
 *
 * farpage's own calls of these names come here, too (--wrap), and not to this library's exported functions. Libraries
 * for message passing, such as UCX, overwrite the first instructions of exported functions. The code to which they
 * jump uses the program's memory, for which a thread that serves faults must not wait.
 */
#include "pager/preload/preload.h"

#include <sys/syscall.h>
#include <unistd.h>

void *kernel_mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)
{
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

int kernel_munmap(void *address, size_t length)
{
	return (int)syscall(SYS_munmap, address, length);
}

int kernel_madvise(void *address, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, address, length, advice);
}

int kernel_mprotect(void *address, size_t length, int protection)
{
	return (int)syscall(SYS_mprotect, address, length, protection);
}

int kernel_pkey_mprotect(void *address, size_t length, int protection, int key)
{
	return (int)syscall(SYS_pkey_mprotect, address, length, protection, key);
}

void *kernel_mremap(void *address, size_t old_length, size_t new_length, int flags, void *new_address)
{
	return (void *)syscall(SYS_mremap, address, old_length, new_length, flags, new_address);
}

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, int64_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, int64_t offset)
{
	return kernel_mmap(address, length, protection, flags, fd, offset);
}

int __wrap_munmap(void *address, size_t length);
int __wrap_munmap(void *address, size_t length)
{
	return kernel_munmap(address, length);
}

int __wrap_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice)
{
	return kernel_madvise(address, length, advice);
}

int __wrap_mprotect(void *address, size_t length, int protection);
int __wrap_mprotect(void *address, size_t length, int protection)
{
	return kernel_mprotect(address, length, protection);
}
