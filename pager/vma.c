#include "pager/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* For kernel headers older than Linux 6.11 (Debian 12). */
struct procmap_question {
	__u64 size, query_flags, query_addr;
	__u64 vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	__u32 dev_major, dev_minor, vma_name_size, build_id_size;
	__u64 vma_name_addr, build_id_addr;
};
_Static_assert(sizeof(struct procmap_question) == 104, "as struct procmap_query of linux/fs.h");

#define PROCMAP_ASK _IOWR('f', 17, struct procmap_question)
#define PROCMAP_READABLE 0x01u
#define PROCMAP_WRITABLE 0x02u
#define PROCMAP_EXECUTABLE 0x04u
#define PROCMAP_SHARED 0x08u

int vma_open(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Reads a hexadecimal number, and skips the character after it. */
static uintptr_t take_number(const char **at)
{
	uintptr_t number = 0;

	for (;; (*at)++) {
		char digit = **at;

		if (digit >= '0' && digit <= '9')
			number = number << 4 | (uintptr_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			number = number << 4 | (uintptr_t)(digit - 'a' + 10);
		else
			break;
	}
	(*at)++;
	return number;
}

/* Reads one line of the text, "7f0000000000-7f0000001000 rw-p ...". Returns true if the line covers @address. */
static bool line_covers(const char *line, uintptr_t address, struct vma *ret_vma)
{
	uintptr_t start = take_number(&line), end = take_number(&line);

	if (address < start || address >= end)
		return false;
	*ret_vma = (struct vma){
	    .end = end,
	    .protection =
		(line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) | (line[2] == 'x' ? PROT_EXEC : 0),
	    .shared = line[3] == 's',
	};
	return true;
}

/* Searches the text. A read returns as many whole lines as fit. Looks only at the start of each line. */
static int vma_search(int fd, uintptr_t address, struct vma *ret_vma)
{
	char text[8192];
	off_t offset = 0;

	for (ssize_t got; (got = pread(fd, text, sizeof text, offset)) > 0; offset += got) {
		const char *end = text + got;

		for (const char *line = text; line < end;) {
			if (line_covers(line, address, ret_vma))
				return 0;
			const char *next = memchr(line, '\n', (size_t)(end - line));
			line = next ? next + 1 : end;
		}
	}
	return -ENOENT;
}

int vma_query(int fd, const void *address, struct vma *ret_vma)
{
	struct procmap_question question = {.size = sizeof question, .query_addr = (uintptr_t)address};

	if (ioctl(fd, PROCMAP_ASK, &question))
		return errno == ENOTTY ? vma_search(fd, (uintptr_t)address, ret_vma) : -errno;
	*ret_vma = (struct vma){
	    .end = question.vma_end,
	    .protection = (question.vma_flags & PROCMAP_READABLE ? PROT_READ : 0) |
			  (question.vma_flags & PROCMAP_WRITABLE ? PROT_WRITE : 0) |
			  (question.vma_flags & PROCMAP_EXECUTABLE ? PROT_EXEC : 0),
	    .shared = question.vma_flags & PROCMAP_SHARED,
	};
	return 0;
}
