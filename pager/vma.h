/*
 * vma: asks the kernel about the mapping at an address of this process. It uses PROCMAP_QUERY on /proc/self/maps (Linux
 * 6.11), or that file's text on older kernels (Documentation/filesystems/proc.rst). It allocates nothing and uses no
 * stdio.
 */
#ifndef PAGER_VMA_H
#define PAGER_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vma {
	uintptr_t end;  /* first address behind the mapping */
	int protection; /* PROT_READ and so on */
	bool shared;
};

/* Returns a descriptor for vma_query(), or -errno. Close it with close(2). */
int vma_open(void);
/* Describes the mapping at @address. Returns 0, -ENOENT if nothing is mapped there, or -errno of ioctl(2). Any
   thread. */
int vma_query(int fd, const void *address, struct vma *ret_vma);

#endif
