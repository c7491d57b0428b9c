/* Architecture-specific code. Each architecture has one file in arch/, which defines the same names:
 *
 *   struct pt_regs        the registers that the entry code saves, as a CO-RE shadow
 *   NR_…                  system call numbers
 *   entry_of              how the kernel was entered (struct entry)
 *   entry_id              distinguishes one interrupt or exception from the previous one
 *   left_user_mode_by_this  whether the thread left user mode by the current interrupt, if its entry address does not show this
 *   enter_batch           number of requests that the current io_uring_enter was asked to submit
 *   call_number, aio_number, calls_as_i386, argument_i386   calls in a second table of system calls
 *   makes_a_thread        calls that return twice
 *   syscall_nr, argument, call_argument                     number and arguments in a call's registers
 *   gone_in_user_mode     thread flag that is cleared on the way to user mode
 *   kind_of_line          kind of an interrupt line (enum line_kind)
 *   USER_MODE             whether a sample is in user mode
 *   user_registers_of     registers with which the thread left user mode
 *   stub_callers          return addresses of a function without a frame
 *
 * path/entry/ also has a file per architecture, with the names of the entry points.
 */
#ifndef IOTRAIL_ARCH_H
#define IOTRAIL_ARCH_H

/* How the kernel was entered, from the registers of the outermost entry. */
struct entry {
	long nr;       /* system call number, from `call_number`; negative: an interrupt or exception */
	bool finished; /* the system call has its result and is about to exit */
	__u64 address; /* return address of the outermost call: the entry point */
};

/* Where a thread left user mode. */
struct user_registers {
	__u64 ip;
	__u64 sp;
	__u64 fp;
};

#define STUB_WORDS 16

/* Buffer for a stack: BPF's own stack is small. */
struct stack_room {
	struct user_stack stack;
	struct user_registers regs;
	__u64 below; /* the preceding frame is valid */
	__u64 at;
	__u64 code, end;
	__u64 words[STUB_WORDS];
	__u32 found, probes;
};

/* Address bits in user mode; arm64 may put a signature (PAC) in the others. */
#define ADDRESS ((1ull << 48) - 1)

/* Kind of an interrupt line. */
enum line_kind {
	LINE_OF_DEVICE = 1,
	LINE_OF_TIMER,
	LINE_OF_IPI, /* ipi_entry identifies it */
	LINE_OF_LINES, /* a demultiplexer, whose lines have handlers of their own */
	LINE_OF_PMU, /* the sampling interrupt; may be an NMI, nested in any other */
};

/* Address of the kernel's irq registers, for interrupts that share an entry; 0: unknown. */
const volatile __u64 irq_regs_address = 0;
const volatile __u64 per_cpu_offsets_address = 0;

/* Extents of the kernel functions that path/entry names for this architecture; all 0 if symbols are hidden. */
const volatile struct function_extent entry_functions[ENTRY_FUNCTIONS_MAX] = {};

static __always_inline bool in_function(__u64 return_address, int which)
{
	return return_address - 1 - entry_functions[which].start < entry_functions[which].bytes;
}

#if defined(__TARGET_ARCH_x86)
#include "arch/x86.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arch/arm64.h"
#else
#error "this architecture has no entry decoding yet: see docs/contributing/new-architecture.md"
#endif
#endif
