/* Buffers that are unregistered: requests that are in flight then keep theirs, and the program may not know (path/memory.rs). */

const volatile struct unregistered unregistered_layout = {}; /* as trail_layout */

#define UNREGISTER_BUFFERS 1 /* IORING_UNREGISTER_BUFFERS */
#define RESIZE_RINGS 33	     /* IORING_REGISTER_RESIZE_RINGS */

static __noinline int unregistered(struct io_ring_ctx *ring)
{
	struct unregistered gone = {};

	if (!counting || !seen_here())
		return 0;
	gone.ns = bpf_ktime_get_ns();
	gone.ring = ring_number(ring, this_slot());
	bpf_ringbuf_output(&trails_out, &gone, sizeof(gone), BPF_RB_NO_WAKEUP);
	return 0;
}

static __noinline int resized(struct io_ring_ctx *ring)
{
	struct cpu_slot *slot = this_slot();

	if (!counting || (slot->current == CURRENT_UNSEEN && !seen_here()))
		return 0;
	return sizes_of(ring, ring_number(ring, slot));
}

/* The call is over by now. Before 6.13 it waits for the requests that use them. */
SEC("tp_btf/io_uring_register")
int BPF_PROG(memory_registered, void *ring, unsigned int opcode, unsigned int files, unsigned int buffers, long result)
{
	if (opcode == RESIZE_RINGS && !result)
		return UNDISTURBED(resized(ring));
	return opcode == UNREGISTER_BUFFERS && !result ? UNDISTURBED(unregistered(ring)) : 0;
}
