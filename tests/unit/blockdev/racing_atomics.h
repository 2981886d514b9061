/*
 * racing_atomics: a delay or a yield, at random, before each atomic operation. A test includes this header before a
 * source that uses C11 atomics. So a race that lasts only a few instructions happens within seconds. If the test
 * sets racing_hook, the hook is called before each atomic operation instead.
 */
#ifndef RACING_ATOMICS_H
#define RACING_ATOMICS_H
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

static void (*racing_hook)(void);

__attribute__((unused)) static void racing_wait(void)
{
	static _Thread_local uint32_t state;
	static _Atomic uint32_t seeds;

	if (racing_hook) {
		racing_hook();
		return;
	}
	if (!state)
		state = (atomic_fetch_add_explicit(&seeds, 1, memory_order_relaxed) + 1) * 2654435761u;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	if (state % 64 == 0)
		sched_yield();
	else if (state % 64 == 1)
		for (volatile unsigned i = 0; i < (state >> 8) % 512; i++)
			;
}

#undef atomic_load
#define atomic_load(object) (racing_wait(), atomic_load_explicit(object, memory_order_seq_cst))
#undef atomic_store
#define atomic_store(object, value) (racing_wait(), atomic_store_explicit(object, value, memory_order_seq_cst))
#undef atomic_fetch_or
#define atomic_fetch_or(object, value) (racing_wait(), atomic_fetch_or_explicit(object, value, memory_order_seq_cst))
#undef atomic_fetch_and
#define atomic_fetch_and(object, value) (racing_wait(), atomic_fetch_and_explicit(object, value, memory_order_seq_cst))
#undef atomic_fetch_sub
#define atomic_fetch_sub(object, value) (racing_wait(), atomic_fetch_sub_explicit(object, value, memory_order_seq_cst))
#undef atomic_compare_exchange_strong
#define atomic_compare_exchange_strong(object, expected, value)                                                        \
	(racing_wait(),                                                                                                \
	 atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst))
#undef atomic_compare_exchange_weak
#define atomic_compare_exchange_weak(object, expected, value)                                                          \
	(racing_wait(),                                                                                                \
	 atomic_compare_exchange_weak_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst))
#endif
