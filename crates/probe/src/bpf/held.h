/* Programs that disable preemption. */
#ifndef IOTRAIL_HELD_H
#define IOTRAIL_HELD_H

/* If programs on tracepoints can be preempted (7.x: their guard is SRCU), another traced thread could find the same
 * program running on this CPU, and its event would be missed: programs in thread context disable preemption while they run.
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
