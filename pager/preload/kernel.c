/* kernel: makes the system calls for memory directly, because this library replaces the C functions of these names.
   Return values and errno are the same. Any thread. */
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
