/* fiber: see fiber.h. */
#undef _FORTIFY_SOURCE /* fortified longjmp takes a jump to another stack for an error */
#include "tests/sim/fiber.h"

#include "tests/lib/sanitizers.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

/* As large as the stack of the control thread (client/donor/control.h). */
#define STACK_BYTES ((size_t)256 << 10)

struct fiber {
	ucontext_t first; /* where the first run begins */
	jmp_buf left;     /* where every other run begins */
	bool begun;
	void *stack;
	void (*run)(void *);
	void *argument;
	bool over;
	void *fake; /* AddressSanitizer's fake stack, while the fiber is left */
	struct fiber *next;
};

static struct {
	jmp_buf left;
	struct fiber *inside;
	struct fiber *idle; /* fibers that have ended, with their stacks */
	void *fake;
	const void *stack; /* the stack outside of all fibers */
	size_t stack_bytes;
} outside;

static void switch_begin(void **fake, const void *stack, size_t bytes)
{
#if UNDER_ASAN
	__sanitizer_start_switch_fiber(fake, stack, bytes);
#else
	(void)fake, (void)stack, (void)bytes;
#endif
}

static void switch_end(void *fake, const void **stack, size_t *bytes)
{
#if UNDER_ASAN
	__sanitizer_finish_switch_fiber(fake, stack, bytes);
#else
	(void)fake, (void)stack, (void)bytes;
#endif
}

static void fiber_main(void)
{
	struct fiber *fiber = outside.inside;

	switch_end(NULL, &outside.stack, &outside.stack_bytes);
	fiber->run(fiber->argument);
	fiber->over = true;
	switch_begin(NULL, outside.stack, outside.stack_bytes);
	_longjmp(outside.left, 1);
}

struct fiber *fiber_create(void (*run)(void *), void *argument)
{
	struct fiber *fiber = outside.idle;

	if (fiber) {
		outside.idle = fiber->next;
	} else {
		fiber = calloc(1, sizeof *fiber);
		if (!fiber)
			abort();
		fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
		if (fiber->stack == MAP_FAILED || mprotect(fiber->stack, 4096, PROT_NONE) < 0)
			abort();
	}
	fiber->run = run;
	fiber->argument = argument;
	fiber->over = fiber->begun = false;
	fiber->fake = NULL;
	getcontext(&fiber->first);
	fiber->first.uc_stack.ss_sp = fiber->stack;
	fiber->first.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber->first, fiber_main, 0);
	return fiber;
}

void fiber_enter(struct fiber *fiber)
{
	outside.inside = fiber;
	switch_begin(&outside.fake, fiber->stack, STACK_BYTES);
	if (!_setjmp(outside.left)) {
		if (fiber->begun)
			_longjmp(fiber->left, 1);
		fiber->begun = true;
		setcontext(&fiber->first);
	}
	switch_end(outside.fake, NULL, NULL);
	outside.inside = NULL;
}

void fiber_leave(void)
{
	struct fiber *fiber = outside.inside;

	switch_begin(&fiber->fake, outside.stack, outside.stack_bytes);
	if (!_setjmp(fiber->left))
		_longjmp(outside.left, 1);
	switch_end(fiber->fake, &outside.stack, &outside.stack_bytes);
}

bool fiber_is_over(const struct fiber *fiber)
{
	return fiber->over;
}

void fiber_free(struct fiber *fiber)
{
	if (!fiber->over)
		return;
	fiber->next = outside.idle;
	outside.idle = fiber;
}
