#include "pager/victims.h"

#include <errno.h>
#include <sys/mman.h>

#define NO_PAGE UINT32_MAX

static void *map_memory(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, length, MADV_DONTFORK);
	return memory;
}

int victims_open(struct victims *victims, struct pages *pages, struct refault *refault, uint32_t count)
{
	*victims = (struct victims){.count = count, .pages = pages, .refault = refault};
	victims->frames = map_memory((size_t)count * STORE_PAGE);
	victims->page_of = map_memory(count * sizeof *victims->page_of);
	victims->writing = map_memory(count);
	victims->proven = map_memory(count * sizeof *victims->proven);
	if (!victims->frames || !victims->page_of || !victims->writing || !victims->proven) {
		victims_close(victims);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		victims->page_of[i] = NO_PAGE;
	return 0;
}

void victims_close(struct victims *victims)
{
	if (victims->frames)
		munmap(victims->frames, (size_t)victims->count * STORE_PAGE);
	if (victims->page_of)
		munmap(victims->page_of, victims->count * sizeof *victims->page_of);
	if (victims->writing)
		munmap(victims->writing, victims->count);
	if (victims->proven)
		munmap(victims->proven, victims->count * sizeof *victims->proven);
	*victims = (struct victims){0};
}

uint64_t victims_memory(const struct victims *victims)
{
	return (uint64_t)victims->count * (STORE_PAGE + sizeof *victims->page_of + 1 + sizeof *victims->proven);
}

bool victims_empty(struct victims *victims, uint32_t frame)
{
	uint32_t page = victims->page_of[frame];

	if (victims->writing[frame])
		return false;
	if (page == NO_PAGE)
		return true;
	uint32_t word = pages_load(victims->pages, page);
	if (page_state(word) == PAGE_RESIDENT) {
		if (victims->proven[frame])
			victims->proven_returned++;
		else
			victims->young_returned++;
	} else if (page_frame(word) == frame) {
		if (page_state(word) == PAGE_RETURNING)
			return false;
		if (page_state(word) == PAGE_BUFFERED) {
			if (!pages_move_from(victims->pages, page, word, PAGE_FAR, refault_stamp(victims->refault)))
				return false;
			refault_count(victims->refault);
		}
	}
	victims->page_of[frame] = NO_PAGE;
	return true;
}

uint32_t victims_allocate(struct victims *victims)
{
	/* Skips frames that the handler is reading. The evictor must not wait for such a frame, because the handler may
	   be waiting for the evictor. */
	for (uint32_t tried = 0; tried < victims->count; tried++) {
		uint32_t frame = victims->next;

		if (victims->writing[frame])
			return VICTIMS_NONE;
		victims->next = (frame + 1) % victims->count;
		if (victims_empty(victims, frame))
			return frame;
	}
	return VICTIMS_NONE;
}
