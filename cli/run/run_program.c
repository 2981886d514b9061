/* run_program: see run_program.h. Threads: any. */
#include "cli/run/run_program.h"

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

#define INTERPRETERS_MAX 4 /* the depth of scripts that run scripts; as in the kernel */
#define SEGMENTS_MAX 128
#define SECTIONS_MAX 256
#define TABLE_MAX ((size_t)64 << 20) /* bytes; larger tables of symbols or of names are not searched */
#define HEAD_BYTES 256               /* the kernel reads no more of a #! line */

/* Facts from the program's file. */
struct elf_program {
	ElfW(Ehdr) header;
	char loader[PATH_MAX]; /* PT_INTERP; empty if statically linked */
};

/* Where to write the reason why a file cannot be run, or cannot have far memory. */
struct refusal {
	const char *label; /* the file's name in messages */
	char *text;
};

static int refuse(const struct refusal *refusal, int status, const char *why)
{
	snprintf(refusal->text, RUN_WHY_MAX, "%s: %s", refusal->label, why);
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

/* Reads the header and the loader's path. Returns 0, -ENOEXEC if the file is not an ELF file, or -EXDEV if it is for
   another kind of machine. */
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

/* Returns the bytes of a section, and a zero byte after them. The caller frees them. Returns NULL if they cannot be
   read. */
static char *read_section(int fd, const ElfW(Shdr) * section)
{
	char *bytes = section->sh_size < TABLE_MAX ? calloc(1, section->sh_size + 1) : NULL;

	if (bytes && pread(fd, bytes, section->sh_size, (off_t)section->sh_offset) == (ssize_t)section->sh_size)
		return bytes;
	free(bytes);
	return NULL;
}

/* A section and the names to which it refers. */
struct named_section {
	char *bytes, *names;
	size_t length, names_length;
};

/* Returns true if the program itself defines mmap or munmap. Its libraries then call this function in place of the
   preload library's. */
static bool defines_mmap(const struct named_section *symbols)
{
	const ElfW(Sym) *table = (const ElfW(Sym) *)(const void *)symbols->bytes;

	for (size_t i = 0; i < symbols->length / sizeof *table; i++) {
		if (table[i].st_shndx == SHN_UNDEF || table[i].st_name >= symbols->names_length)
			continue;
		const char *name = symbols->names + table[i].st_name;

		if (strcmp(name, "mmap") == 0 || strcmp(name, "munmap") == 0)
			return true;
	}
	return false;
}

/* Returns true if the program was built by gcc with AddressSanitizer, ThreadSanitizer or LeakSanitizer. They allocate
   memory by system calls, and do not start if another library has a malloc. clang links them statically
   (defines_mmap()). */
static bool needs_sanitizer(const struct named_section *dynamic)
{
	static const char *const libraries[] = {"libasan.so", "libtsan.so", "liblsan.so"};
	const ElfW(Dyn) *table = (const ElfW(Dyn) *)(const void *)dynamic->bytes;

	for (size_t i = 0; i < dynamic->length / sizeof *table; i++) {
		if (table[i].d_tag != DT_NEEDED || table[i].d_un.d_val >= dynamic->names_length)
			continue;
		for (unsigned j = 0; j < sizeof libraries / sizeof libraries[0]; j++)
			if (strncmp(dynamic->names + table[i].d_un.d_val, libraries[j], strlen(libraries[j])) == 0)
				return true;
	}
	return false;
}

/* Returns true if @has is true for a section of this type. */
static bool some_section(int fd, const struct elf_program *elf, unsigned type,
			 bool (*has)(const struct named_section *section))
{
	unsigned count = elf->header.e_shnum;
	ElfW(Shdr) sections[SECTIONS_MAX];
	bool found = false;

	if (elf->header.e_shentsize != sizeof sections[0] || count > SECTIONS_MAX ||
	    pread(fd, sections, count * sizeof sections[0], (off_t)elf->header.e_shoff) !=
		(ssize_t)(count * sizeof sections[0]))
		return false;
	for (unsigned i = 0; i < count && !found; i++) {
		if (sections[i].sh_type != type || sections[i].sh_link >= count)
			continue;
		const ElfW(Shdr) *names = &sections[sections[i].sh_link];
		struct named_section section = {.bytes = read_section(fd, &sections[i]),
						.names = read_section(fd, names),
						.length = sections[i].sh_size,
						.names_length = names->sh_size};

		found = section.bytes && section.names && has(&section);
		free(section.bytes);
		free(section.names);
	}
	return found;
}

/* Compares the ELF file with this process's own program, which can run here and uses the same C library as the preload
   library. */
static int check_elf(int fd, const struct refusal *refusal)
{
	struct elf_program elf, own;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int error = self < 0 ? -errno : read_elf(self, &own);

	if (self >= 0)
		close(self);
	if (error)
		return refuse(refusal, RUN_FAILED, "/proc/self/exe cannot be read; is /proc mounted?");
	error = read_elf(fd, &elf);
	if (error == -EXDEV || (!error && elf.header.e_machine != own.header.e_machine))
		return refuse(refusal, -ENOEXEC, "it is a program for another kind of machine");
	if (error || (elf.header.e_type != ET_EXEC && elf.header.e_type != ET_DYN))
		return refuse(refusal, RUN_NOT_EXECUTABLE, "it is neither a program nor a script");
	if (!*elf.loader)
		return refuse(refusal, -ENOEXEC,
			      "it is statically linked, and the pager needs a dynamically linked program");
	if (strcmp(elf.loader, own.loader) != 0)
		return refuse(refusal, -ENOEXEC, "it uses another C library than the pager");
	/* The preload library would not see the mappings of such a program, for example of one with tcmalloc linked
	   statically. */
	if (some_section(fd, &elf, SHT_DYNSYM, defines_mmap))
		return refuse(refusal, -ENOEXEC,
			      "it brings an mmap or munmap of its own, which the pager does not see");
	if (some_section(fd, &elf, SHT_DYNAMIC, needs_sanitizer))
		return refuse(refusal, -ENOEXEC,
			      "it was built with -fsanitize, and the pager does not see a sanitizer's memory");
	return 0;
}

/* Checks that exec(2) would not raise this process's privileges. Returns 0, or -ENOEXEC with the reason in @refusal. */
static int check_privileges(int fd, const struct refusal *refusal, const struct stat *status)
{
	const char *how = NULL;

	if (status->st_mode & S_ISUID && status->st_uid != getuid())
		how = "it is setuid, and the loader gives such programs no far memory; run it as its owner";
	else if ((status->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status->st_gid != getgid())
		how = "it is setgid, and the loader gives such programs no far memory; run it as its group";
	else if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		how = "it has file capabilities, and the loader gives such programs no far memory; run it as root";
	return how ? refuse(refusal, -ENOEXEC, how) : 0;
}

/* Reads the path of a script's interpreter. Returns false if @head does not begin with "#!". */
static bool read_interpreter(const char *head, char ret_path[PATH_MAX])
{
	if (strncmp(head, "#!", 2) != 0)
		return false;
	head += 2 + strspn(head + 2, " \t");
	snprintf(ret_path, PATH_MAX, "%.*s", (int)strcspn(head, " \t\n"), head);
	return true;
}

static int check_file(const char *path, const struct refusal *refusal, char ret_interpreter[PATH_MAX])
{
	struct stat status;
	char head[HEAD_BYTES + 1];

	*ret_interpreter = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		int status_wanted = errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;

		return refuse(refusal, status_wanted, errno == EACCES ? "no right to read it" : strerror(errno));
	}
	int result = 0;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		result = refuse(refusal, RUN_NOT_EXECUTABLE, "it is not a file");
	else if (access(path, X_OK))
		result = refuse(refusal, RUN_NOT_EXECUTABLE, "it is not executable");
	if (!result) {
		ssize_t got = pread(fd, head, HEAD_BYTES, 0);

		head[got > 0 ? got : 0] = 0;
		/* exec(2) raises no privileges for a script, only for a program. */
		if (!read_interpreter(head, ret_interpreter))
			result = check_privileges(fd, refusal, &status);
		if (!result && !*ret_interpreter)
			result = check_elf(fd, refusal);
	}
	close(fd);
	return result;
}

int run_program_find(const char *name, char ret_path[PATH_MAX])
{
	const char *list = getenv("PATH"), *rest = list ? list : "/bin:/usr/bin";
	bool denied = false;

	if (strchr(name, '/')) {
		snprintf(ret_path, PATH_MAX, "%s", name);
		return 0;
	}
	while (*name) {
		size_t length = strcspn(rest, ":");
		struct stat status;
		int needed = snprintf(ret_path, PATH_MAX, "%.*s%s%s", (int)length, rest, length ? "/" : "./", name);

		if (needed < PATH_MAX && !stat(ret_path, &status) && S_ISREG(status.st_mode)) {
			if (!access(ret_path, X_OK))
				return 0;
			denied = true;
		}
		if (!rest[length])
			break;
		rest += length + 1;
	}
	log_error("cannot run %s: %s", name, denied ? "it is not executable" : "no such program in PATH");
	return denied ? RUN_NOT_EXECUTABLE : RUN_NOT_FOUND;
}

int run_program_check(const char *file, char ret_why[RUN_WHY_MAX])
{
	char path[PATH_MAX], interpreter[PATH_MAX], label[3 * PATH_MAX];
	const struct refusal refusal = {label, ret_why};
	int result = 0;

	snprintf(path, sizeof path, "%s", file);
	snprintf(label, sizeof label, "%s", file);
	for (unsigned depth = 0; !result; depth++) {
		if (depth == INTERPRETERS_MAX)
			return refuse(&refusal, RUN_NOT_EXECUTABLE, "too many scripts interpreting scripts");
		result = check_file(path, &refusal, interpreter);
		if (!*interpreter)
			break;
		memcpy(path, interpreter, sizeof path);
		snprintf(label, sizeof label, "%s (its interpreter is %s)", file, path);
	}
	return result;
}
