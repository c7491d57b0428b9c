/* Programs that hold their CPU. */
#ifndef IOTRAIL_HELD_H
#define IOTRAIL_HELD_H

/* Where programs on tracepoints can be preempted (7.x: their guard is SRCU's), another thread of the watched would find the same
 * program under way on this CPU, and its event would be missed: what runs in threads holds the CPU for as long as it runs.
 */
const volatile bool preemptible = false;

extern void bpf_preempt_disable(void) __attribute__((section(".ksyms"), weak));
extern void bpf_preempt_enable(void) __attribute__((section(".ksyms"), weak));

#define HELD(when, call)                                                    \
	({                                                                  \
		if ((when) && bpf_ksym_exists(bpf_preempt_disable))         \
			bpf_preempt_disable();                              \
		int held = call;                                            \
		if ((when) && bpf_ksym_exists(bpf_preempt_enable))          \
			bpf_preempt_enable();                               \
		held;                                                       \
	})
#define UNDISTURBED(call) HELD(preemptible, call)

#endif
