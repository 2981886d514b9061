/*
 * vma: what the kernel says of the mapping at an address of this process: by PROCMAP_QUERY on /proc/self/maps
 * (Linux 6.11), or by that file's text on older kernels (Documentation/filesystems/proc.rst). Allocates nothing, and
 * uses no stdio.
 */
#ifndef PAGER_VMA_H
#define PAGER_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vma {
	uintptr_t end;  /* the first address behind it */
	int protection; /* PROT_READ and so on */
	bool shared;
};

/* A descriptor for vma_query(), -errno. Close it with close(2). */
int vma_open(void);
/* -ENOENT: nothing is mapped at @address. -errno of ioctl(2) or pread(2). Any thread. */
int vma_query(int fd, const void *address, struct vma *ret_vma);

#endif
