/* All that is specific to an architecture. Each has one file in arch/, with the same names in it:
 *
 *   struct pt_regs        what the entry code saves, as a CO-RE shadow
 *   NR_…                  numbers of system calls
 *   entry_of              how the kernel was entered (struct entry)
 *   entry_id              tells one interrupt or exception from the one before it
 *   left_user_mode_by_this  whether the interrupt under way is the one that a thread left user mode by, as far as its address does not tell
 *   enter_batch           what the io_uring_enter under way was asked to submit
 *   call_number, aio_number, calls_as_i386, argument_i386   programs of a second table of system calls
 *   syscall_nr, argument, call_argument                     of a call's registers
 *   gone_in_user_mode     a thread's flag that tells whether it has been in user mode
 *   kind_of_line          which lines are not devices'
 *   USER_MODE             of a sample
 *   user_registers_of     of a thread in user mode
 *   stub_callers          where a function without a frame returns to
 *
 * The names of the entries are in path/entry/, a file for each architecture as well.
 */
#ifndef IOTRAIL_ARCH_H
#define IOTRAIL_ARCH_H

/* How the kernel was entered, from the registers of the outermost entry. */
struct entry {
	long nr;       /* system call number, as `call_number` has it; negative: an interrupt or exception */
	bool finished; /* the system call has its result: it is on its way out */
	__u64 address; /* return address of the outermost call: which entry point it was */
};

/* Where a thread left user mode. */
struct user_registers {
	__u64 ip;
	__u64 sp;
	__u64 fp;
};

#define STUB_WORDS 16

/* What a stack is made in: BPF's own stack is small. */
struct stack_room {
	struct user_stack stack;
	struct user_registers regs;
	__u64 below; /* the frame before it is there */
	__u64 at;
	__u64 code, end;
	__u64 words[STUB_WORDS];
	__u32 found, probes;
};

/* Bits of an address in user mode; arm64 may sign return addresses in the others. */
#define ADDRESS ((1ull << 48) - 1)

/* Whose a line is. */
enum line_kind {
	LINE_OF_DEVICE = 1,
	LINE_OF_TIMER,
	LINE_OF_IPI, /* ipi_entry tells which */
	LINE_OF_LINES, /* brings others' lines, each with a handler of its own within it */
	LINE_OF_PMU, /* the samples' own; may come as an NMI, within any other */
};

/* Of the kernel's data, for the interrupts that share an entry; 0: not known. */
const volatile __u64 irq_regs_address = 0;
const volatile __u64 per_cpu_offsets_address = 0;

/* Of the kernel's own functions, those whose names path/entry has for this architecture: all 0 where symbols are hidden. */
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
