/* Disables preemption around a program. */
#ifndef IOTRAIL_HELD_H
#define IOTRAIL_HELD_H

/* If tracepoint programs are preemptible (7.x, where SRCU protects them), another traced thread could enter a program that
 * is already running on this CPU, and its event would be missed. Programs in thread context therefore disable preemption.
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
