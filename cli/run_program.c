/* run_program: see run_program.h. Threads: any. */
#include "cli/run_program.h"
#include "common/log.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define INTERPRETERS_MAX 4 /* scripts of scripts; the kernel goes as far */
#define SEGMENTS_MAX 128
#define HEAD_BYTES 256 /* the kernel reads no more of a #! line */

/* What the program's file says about itself. */
struct elf_program {
	ElfW(Ehdr) header;
	char loader[PATH_MAX]; /* PT_INTERP; empty: static */
};

static int refuse(int status, const char *path, const char *why)
{
	log_error("cannot run %s: %s", path, why);
	return status;
}

static int read_segments(int fd, struct elf_program *elf)
{
	ElfW(Phdr) segment;
	if (elf->header.e_phentsize != sizeof segment || elf->header.e_phnum > SEGMENTS_MAX)
		return -ENOEXEC;
	for (unsigned i = 0; i < elf->header.e_phnum; i++) {
		off_t offset = (off_t)(elf->header.e_phoff + i * sizeof segment);
		if (pread(fd, &segment, sizeof segment, offset) != (ssize_t)sizeof segment)
			return -ENOEXEC;
		if (segment.p_type != PT_INTERP)
			continue;
		if (segment.p_filesz >= sizeof elf->loader ||
		    pread(fd, elf->loader, segment.p_filesz, (off_t)segment.p_offset) != (ssize_t)segment.p_filesz)
			return -ENOEXEC;
		elf->loader[segment.p_filesz] = 0;
	}
	return 0;
}

/* -ENOEXEC: not an ELF file; -EXDEV: of another machine. */
static int read_elf(int fd, struct elf_program *elf)
{
	memset(elf, 0, sizeof *elf);
	ssize_t got = pread(fd, &elf->header, sizeof elf->header, 0);
	if (got < EI_NIDENT || memcmp(elf->header.e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	const unsigned char native = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	if (elf->header.e_ident[EI_CLASS] != native)
		return -EXDEV;
	if (got != (ssize_t)sizeof elf->header)
		return -ENOEXEC;
	return read_segments(fd, elf);
}

/* Compared with this very program, which runs here and uses the same C library as the preload library. */
static int check_elf(int fd, const char *label)
{
	struct elf_program elf, own;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int error = self < 0 ? -errno : read_elf(self, &own);
	if (self >= 0)
		close(self);
	if (error) {
		log_error("cannot read /proc/self/exe: %s; is /proc mounted?", strerror(-error));
		return RUN_FAILED;
	}
	error = read_elf(fd, &elf);
	if (error == -EXDEV || (!error && elf.header.e_machine != own.header.e_machine))
		return refuse(RUN_NOT_EXECUTABLE, label, "it is a program for another kind of machine");
	if (error || (elf.header.e_type != ET_EXEC && elf.header.e_type != ET_DYN))
		return refuse(RUN_NOT_EXECUTABLE, label, "it is neither a program nor a script");
	if (!*elf.loader)
		return refuse(RUN_NOT_EXECUTABLE, label,
			      "it is statically linked, and only dynamically linked programs can be given far memory");
	if (strcmp(elf.loader, own.loader) != 0) {
		log_error("cannot run %s: it uses another C library (%s)", label, elf.loader);
		return RUN_NOT_EXECUTABLE;
	}
	return 0;
}

/* Would exec(2) raise this process's privileges? */
static int check_privileges(int fd, const char *label, const struct stat *status)
{
	const char *how = NULL;
	if (status->st_mode & S_ISUID && status->st_uid != getuid())
		how = "it is setuid, and the loader gives such programs no far memory; run it as its owner";
	else if ((status->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status->st_gid != getgid())
		how = "it is setgid, and the loader gives such programs no far memory; run it as its group";
	else if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		how = "it has file capabilities, and the loader gives such programs no far memory; run it as root";
	return how ? refuse(RUN_NOT_EXECUTABLE, label, how) : 0;
}

/* The interpreter of a script: true and its path, or false when @head begins otherwise. */
static bool read_interpreter(const char *head, char ret_path[PATH_MAX])
{
	if (strncmp(head, "#!", 2) != 0)
		return false;
	head += 2 + strspn(head + 2, " \t");
	snprintf(ret_path, PATH_MAX, "%.*s", (int)strcspn(head, " \t\n"), head);
	return true;
}

static int check_file(const char *path, const char *label, char ret_interpreter[PATH_MAX])
{
	struct stat status;
	char head[HEAD_BYTES + 1];
	*ret_interpreter = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		log_error("cannot run %s: %s", label, errno == EACCES ? "no right to read it" : strerror(errno));
		return errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
	}
	int result = 0;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		result = refuse(RUN_NOT_EXECUTABLE, label, "it is not a file");
	else if (access(path, X_OK))
		result = refuse(RUN_NOT_EXECUTABLE, label, "it is not executable");
	if (!result) {
		ssize_t got = pread(fd, head, HEAD_BYTES, 0);
		head[got > 0 ? got : 0] = 0;
		/* exec(2) heeds the privileges of programs, not of scripts. */
		if (!read_interpreter(head, ret_interpreter))
			result = check_privileges(fd, label, &status);
		if (!result && !*ret_interpreter)
			result = check_elf(fd, label);
	}
	close(fd);
	return result;
}

/* The first executable of that name in PATH; otherwise the reason why not. */
static int find_program(const char *name, char ret_path[PATH_MAX])
{
	const char *list = getenv("PATH");
	bool denied = false;
	if (strchr(name, '/')) {
		snprintf(ret_path, PATH_MAX, "%s", name);
		return 0;
	}
	if (!list)
		list = "/bin:/usr/bin";
	while (*name) {
		size_t length = strcspn(list, ":");
		struct stat status;
		int needed = snprintf(ret_path, PATH_MAX, "%.*s%s%s", (int)length, list, length ? "/" : "./", name);
		if (needed < PATH_MAX && !stat(ret_path, &status) && S_ISREG(status.st_mode)) {
			if (!access(ret_path, X_OK))
				return 0;
			denied = true;
		}
		if (!list[length])
			break;
		list += length + 1;
	}
	if (denied)
		return refuse(RUN_NOT_EXECUTABLE, name, "it is not executable");
	return refuse(RUN_NOT_FOUND, name, "no such program in PATH");
}

int run_program_check(const char *name, char ret_path[PATH_MAX])
{
	char path[PATH_MAX], interpreter[PATH_MAX], label[3 * PATH_MAX];
	int result = find_program(name, path);
	if (result)
		return result;
	snprintf(ret_path, PATH_MAX, "%s", path);
	snprintf(label, sizeof label, "%s", path);
	for (unsigned depth = 0; !result; depth++) {
		if (depth == INTERPRETERS_MAX)
			return refuse(RUN_NOT_EXECUTABLE, ret_path, "too many scripts interpreting scripts");
		result = check_file(path, label, interpreter);
		if (!*interpreter)
			break;
		memcpy(path, interpreter, sizeof path);
		snprintf(label, sizeof label, "%s (its interpreter is %s)", ret_path, path);
	}
	return result;
}
