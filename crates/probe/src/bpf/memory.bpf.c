/* Unregistered buffers: requests in flight still use them, which the program may not expect (path/memory.rs). */

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

/* Counts a register call by operation and error. */
static __noinline int registered(struct io_ring_ctx *ring, __u32 opcode, __s64 result)
{
	struct cpu_slot *slot = this_slot();

	if (slot->current == CURRENT_UNSEEN && !seen_here())
		return 0;
	struct errno_key key = { .ring = ring_number(ring, slot), .opcode = REGISTER_OPS | opcode };
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &key.ring);
	if (info && ((opcode >= IORING_REGISTER_FILES2 && opcode <= IORING_REGISTER_BUFFERS_UPDATE) ||
		     opcode == IORING_REGISTER_ZCRX_IFQ))
		info->tagged = 1;
	if (result < 0)
		key.number = -result;
	if (counting)
		add_or_lose(&errnos, &key, 1, LOSS_ERRNO, slot);
	return 0;
}

static __always_inline int memory_registered_(void *ring, __u32 opcode, __s64 result)
{
	registered(ring, opcode, result);
	if (opcode == RESIZE_RINGS && !result)
		return resized(ring);
	return opcode == UNREGISTER_BUFFERS && !result ? unregistered(ring) : 0;
}

/* The register call returned. Before 6.13 it waits for requests that use the buffers. */
SEC("tp_btf/io_uring_register")
int BPF_PROG(memory_registered, void *ring, unsigned int opcode, unsigned int files, unsigned int buffers, long result)
{
	return UNDISTURBED(memory_registered_(ring, opcode, result));
}
