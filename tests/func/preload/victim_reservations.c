/* Reservations: memory that is mapped without access and opened piece by piece, as by Java, Go, V8 and allocators. */
#include "tests/func/preload/victim.h"

#include <sys/wait.h>

#define RESERVED ((size_t)8 << 30)
#define CHOICES 200 /* more tries than farpage allows before it lets the kernel make the mapping */

static size_t size; /* bytes; several times the budget */

static char *reserve(void *choice, size_t length)
{
	return mmap(choice, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static bool open_fixed(char *start, size_t length)
{
	return mmap(start, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start;
}

/* jemalloc and the JVM do this. */
static void mprotect_opens_and_closes_reserved_memory(void)
{
	char *memory = reserve(NULL, RESERVED);

	ok(memory != MAP_FAILED && !readable(memory) && !readable(memory + RESERVED - 1),
	   "reserved memory cannot be read");
	ok(!mprotect(memory + MB, size, PROT_READ | PROT_WRITE) && !not_zero(memory + MB, MB),
	   "reserved memory opened by mprotect reads as zeroes");
	fill(memory + MB, size, 1);
	ok(!wrong(memory + MB, size, 1, 0), "memory opened by mprotect holds the contents written");
	ok(!readable(memory) && !readable(memory + MB + size), "memory around the opened part cannot be read");
	ok(!mprotect(memory + MB, size, PROT_NONE) && !readable(memory + MB), "mprotect closes opened memory");
	ok(!mprotect(memory + MB, size, PROT_READ | PROT_WRITE) && !wrong(memory + MB, size, 1, 0),
	   "memory closed and opened again keeps its contents");
	ok(!mprotect(memory + MB, size, PROT_NONE) && !madvise(memory + MB, size, MADV_DONTNEED) &&
	       !mprotect(memory + MB, size, PROT_READ | PROT_WRITE) && !not_zero(memory + MB, size),
	   "memory discarded while it is closed reads as zeroes when it is opened");
	for (size_t at = 0; at < size; at += MB / 4)
		if (mprotect(memory + size + 2 * MB + at, MB / 4, PROT_READ | PROT_WRITE))
			break;
	fill(memory + size + 2 * MB, size, 2);
	ok(!wrong(memory + size + 2 * MB, size, 2, 0), "memory opened in pieces of 256 KiB holds the contents written");
	ok(!munmap(memory, RESERVED) && !readable(memory + MB), "munmap unmaps the whole reservation");
}

/* Go and V8 do this. */
static void fixed_mappings_open_and_close_reserved_memory(void)
{
	char *memory = reserve(NULL, RESERVED);

	ok(open_fixed(memory, size) && !not_zero(memory, MB), "reserved memory opened by MAP_FIXED reads as zeroes");
	fill(memory, size, 3);
	ok(!wrong(memory, size, 3, 0), "memory opened by MAP_FIXED holds the contents written");
	ok(mmap(memory + size / 2, size / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		0) == memory + size / 2 &&
	       !readable(memory + size / 2),
	   "MAP_FIXED with PROT_NONE closes half of the opened memory");
	ok(open_fixed(memory + size / 2, size / 2) && !not_zero(memory + size / 2, size / 2) &&
	       !wrong(memory, size / 2, 3, 0),
	   "the half opened again reads as zeroes, the other half keeps its contents");
	ok(!munmap(memory + size, RESERVED - size) && !wrong(memory, size / 2, 3, 0),
	   "munmap of the unopened part leaves the opened part as it was");
	ok(!munmap(memory, size), "munmap unmaps the opened part");
}

/* Haskell's run-time system does this with 1 TiB. farpage gives the lowest part of such a reservation addresses in the
   window, and the rest addresses above it. */
static void reservation_larger_than_far_memory_is_usable(void)
{
	const size_t whole = ((size_t)1 << 40) + MB;
	char *memory = reserve(NULL, whole);

	ok(memory != MAP_FAILED && !readable(memory) && !readable(memory + whole - 1),
	   "a reservation of more than 1 TiB is made, and cannot be read");
	ok(open_fixed(memory + MB, size) && !not_zero(memory + MB, size),
	   "the low part of a large reservation, opened by MAP_FIXED, reads as zeroes");
	fill(memory + MB, size, 9);
	ok(!wrong(memory + MB, size, 9, 0), "the low part of a large reservation holds the contents written");
	ok(open_fixed(memory + whole - MB, MB), "the high end of a large reservation opens");
	fill(memory + whole - MB, MB, 10);
	ok(!wrong(memory + whole - MB, MB, 10, 0), "the high end of a large reservation holds the contents written");
	char *second = reserve(NULL, whole);
	ok(second != MAP_FAILED && second != memory && open_fixed(second, MB) && !not_zero(second, MB),
	   "a second large reservation is made, and opens");
	ok(!munmap(second, whole) && !munmap(memory, whole) && !readable(memory + MB) && !readable(memory + whole - MB),
	   "munmap unmaps large reservations");
}

/* Cuts out an aligned piece, like V8 and mimalloc. */
static void aligned_piece_of_a_reservation_is_usable(void)
{
	const size_t piece = (size_t)1 << 30;
	char *memory = reserve(NULL, 2 * piece);
	char *low = (char *)(((uintptr_t)memory + piece - 1) / piece * piece);

	ok((low == memory || !munmap(memory, (size_t)(low - memory))) &&
	       !munmap(low + piece, (size_t)(memory + piece - low)),
	   "munmap cuts an aligned piece out of a reservation");
	ok(!mprotect(low, size, PROT_READ | PROT_WRITE), "mprotect opens the aligned piece");
	fill(low, size, 4);
	ok(!wrong(low, size, 4, 0), "the aligned piece holds the contents written");
	munmap(low, piece);
}

/* Addresses that were unmapped without ever being opened read as zeroes when they are mapped again. */
static void unopened_memory_is_empty_when_mapped_again(void)
{
	char *memory = reserve(NULL, RESERVED);

	mprotect(memory, size, PROT_READ | PROT_WRITE);
	fill(memory, size, 5);
	munmap(memory, RESERVED);
	memory = reserve(NULL, RESERVED);
	munmap(memory, RESERVED);
	memory = map_memory(size);
	ok(!not_zero(memory, size), "memory mapped after two unmapped reservations reads as zeroes");
	munmap(memory, size);
	munmap(reserve(NULL, size), size);
	memory = map_memory(size); /* at the addresses of the reservation */
	fill(memory, size, 8);
	munmap(memory, size);
	memory = map_memory(size);
	ok(!not_zero(memory, size), "memory in an old reservation's place is empty when it is mapped anew");
	munmap(memory, size);
}

static void insisting_program_gets_its_address(void)
{
	char *choice = (char *)((uintptr_t)42 << 40), *memory;
	unsigned tries = 0;

	while ((memory = reserve(choice, MB)) != choice && tries++ < CHOICES)
		munmap(memory, MB);
	ok(memory == choice, "mmap gives the address that a program insists on, after %u tries", tries);
	munmap(memory, MB);
}

static void child_opens_more_of_a_reservation(void)
{
	char *memory = reserve(NULL, RESERVED);
	int status = -1;

	mprotect(memory, MB, PROT_READ | PROT_WRITE);
	fill(memory, MB, 6);
	pid_t child = fork();
	if (child == 0) {
		bool right = !wrong(memory, MB, 6, 0) && !readable(memory + MB) &&
			     !mprotect(memory + MB, MB, PROT_READ | PROT_WRITE) && !not_zero(memory + MB, MB);

		fill(memory + MB, MB, 7);
		_exit(right && !wrong(memory + MB, MB, 7, 0) ? 0 : 1);
	}
	ok(waitpid(child, &status, 0) == child && status == 0,
	   "a forked child has the reservation and opens more of it (status %x)", (unsigned)status);
	ok(!readable(memory + MB) && !wrong(memory, MB, 6, 0), "memory that a child opens stays closed in its parent");
	munmap(memory, RESERVED);
}

int main(void)
{
	size = victim_size();
	mprotect_opens_and_closes_reserved_memory();
	fixed_mappings_open_and_close_reserved_memory();
	aligned_piece_of_a_reservation_is_usable();
	reservation_larger_than_far_memory_is_usable();
	unopened_memory_is_empty_when_mapped_again();
	insisting_program_gets_its_address();
	child_opens_more_of_a_reservation();
	return tap_done();
}
