/* Sockets of a snapshot: delayed segments, unread data, accept queues, drops and full send buffers. */
#ifndef IOTRAIL_SOCKETS_H
#define IOTRAIL_SOCKETS_H

#include "snapshot.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__u16 skc_family;
	volatile unsigned char skc_state;
};

struct sk_buff {
	struct sk_buff *next;
	unsigned int len;
	char cb[48]; /* TCP: begins with the sequence number of the first byte */
};

struct unix_skb_parms {
	u32 consumed;
};

struct sk_buff_head {
	struct sk_buff *next;
	__u32 qlen;
};

struct numa_drop_counters {
	atomic_t drops0;
	atomic_t drops1;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	u8 sk_userlocks : 4;
	struct sk_buff_head sk_receive_queue;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
	int sk_rcvbuf;
	int sk_sndbuf;
	atomic_t sk_drops;
	struct numa_drop_counters *sk_drop_counters; /* since 6.18, of UDP */
};

struct epoll_event {
	__u32 events;
};

struct epitem {
	struct hlist_node fllink;
	struct eventpoll *ep;
	struct epoll_event event;
};

struct socket {
	unsigned long flags;
	struct sock *sk;
};

struct sock___peer {
	struct socket *sk_socket;
};

struct unix_sock {
	struct sock___peer *peer;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct tcp_sock {
	u32 copied_seq;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 snd_wnd;
	u32 write_seq;
	u32 packets_out;
	u32 mss_cache;
	u8 nonagle : 4;
};

#pragma clang attribute pop

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define TCP_LISTEN 10
#define SOCK_SNDBUF_LOCK 1
#define SOCK_RCVBUF_LOCK 2
#define SOCK_NOSPACE (1 << 2)
#define EPOLL_EVENTS 0xffff /* all events that a descriptor may report; the flags are higher bits */

/* Inode number of the peer of an AF_UNIX stream socket. */
static __always_inline __u64 peer_inode(struct socket *socket)
{
	struct unix_sock *sk = (void *)BPF_CORE_READ(socket, sk);
	struct socket_alloc *peer;

	if (!bpf_core_field_exists(sk->peer) || BPF_CORE_READ((struct sock *)sk, __sk_common.skc_family) != AF_UNIX)
		return 0;
	peer = (void *)BPF_CORE_READ(sk, peer, sk_socket);
	return peer ? BPF_CORE_READ(peer, vfs_inode.i_ino) : 0;
}

/* Buffers of a queue. A walk is too large for the stack here. */
struct buffers {
	__u64 at;
	__u64 end;
	__u32 bytes;
	__u32 pad;
};

static long one_buffer(__u32 i, struct buffers *of)
{
	struct sk_buff *skb = (void *)of->at;

	if (!of->at || of->at == of->end)
		return 1;
	of->bytes += BPF_CORE_READ(skb, len);
	of->at = (__u64)BPF_CORE_READ(skb, next);
	return 0;
}

static __always_inline __u32 dropped(struct sock *sk)
{
	struct numa_drop_counters *drops = NULL;

	if (bpf_core_field_exists(sk->sk_drop_counters))
		drops = BPF_CORE_READ(sk, sk_drop_counters);
	return drops ? BPF_CORE_READ(drops, drops0.counter) + BPF_CORE_READ(drops, drops1.counter) :
		       BPF_CORE_READ(sk, sk_drops.counter);
}

static __always_inline void put(struct walk *w, struct snapshot_queue *out)
{
	if (out->amount && w->queues++ < SOCKETS)
		bpf_seq_write(w->seq, out, sizeof(*out));
}

static __noinline int write_queues(struct walk *w, struct file___held *file, struct sock *sk, __u32 fd)
{
	if (!w)
		return 0;
	struct hlist_node *node = BPF_CORE_READ(file, f_ep, first);
	struct epitem *item = (void *)node - bpf_core_field_offset(struct epitem, fllink);
	struct snapshot_queue out = { .kind = SNAPSHOT_QUEUE, .tgid = w->tgid, .fd = fd, .file = (__u64)file };
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family), protocol = BPF_CORE_READ(sk, sk_protocol);
	__u32 events = 0;

	if (node) {
		events = BPF_CORE_READ(item, event.events);
		out.epoll = (__u64)BPF_CORE_READ(item, ep);
	}
	bool edge = events & EPOLLET && events & EPOLLIN;
	/* An event has disabled all events, until EPOLL_CTL_MOD. */
	out.is_disarmed = events & EPOLLONESHOT && !(events & EPOLL_EVENTS);
	out.listens = BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN;
	if (out.listens || protocol == IPPROTO_UDP) {
		out.queue = QUEUE_DROPPED;
		out.amount = dropped(sk);
		out.limit = out.listens ? BPF_CORE_READ(sk, sk_max_ack_backlog) : BPF_CORE_READ(sk, sk_rcvbuf);
		out.is_set = BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_RCVBUF_LOCK;
		put(w, &out);
	}
	if (out.listens) {
		out.queue = QUEUE_UNACCEPTED;
		out.amount = family == AF_UNIX ? BPF_CORE_READ(sk, sk_receive_queue.qlen) : BPF_CORE_READ(sk, sk_ack_backlog);
		if (edge || out.is_disarmed || !node)
			put(w, &out);
		return 0;
	}
	struct tcp_sock *tcp = (void *)sk;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	if (protocol == IPPROTO_TCP && BPF_CORE_READ(socket, flags) & SOCK_NOSPACE &&
	    BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_SNDBUF_LOCK && BPF_CORE_READ(tcp, packets_out) &&
	    BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_nxt) < BPF_CORE_READ(tcp, mss_cache)) {
		/* The complete buffer is sent, so the peer's window is not the limit. */
		out.queue = QUEUE_FULL;
		out.amount = BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_una);
		out.limit = BPF_CORE_READ(sk, sk_sndbuf);
		out.is_set = 1;
		put(w, &out);
	}
	struct buffers own = { .at = (__u64)BPF_CORE_READ(sk, sk_receive_queue.next), .end = (__u64)&sk->sk_receive_queue };
	if (!own.at || own.at == own.end || (node ? !edge && !out.is_disarmed : !w->ring && !w->written))
		return 0;
	struct sk_buff *first = (void *)own.at;
	__u32 taken = 0; /* bytes of the first buffer that were read */
	out.queue = QUEUE_UNREAD;
	out.amount = 0;
	if (family == AF_UNIX || protocol == IPPROTO_UDP) {
		bpf_loop(SOCKETS, one_buffer, &own, 0);
		if (family == AF_UNIX && bpf_core_field_exists(struct unix_skb_parms, consumed))
			taken = BPF_CORE_READ((struct unix_skb_parms *)&first->cb, consumed);
		out.amount = own.bytes - taken;
	} else if (protocol == IPPROTO_TCP) {
		__u32 sequence = 0, copied = BPF_CORE_READ(tcp, copied_seq);
		bpf_probe_read_kernel(&sequence, sizeof(sequence), &first->cb);
		taken = copied - sequence;
		out.amount = BPF_CORE_READ(tcp, rcv_nxt) - copied;
	}
	if ((__s32)out.amount > 0 && (!node || out.is_disarmed || (__s32)taken > 0))
		put(w, &out);
	return 0;
}

static __noinline int write_socket(struct walk *w, struct file___held *file, __u32 fd)
{
	if (!w)
		return 0;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	struct tcp_sock *tcp = (void *)sk;

	write_queues(w, file, sk, fd);
	if ((family != AF_INET && family != AF_INET6) || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	w->sockets++;
	struct snapshot_socket out = {
		.kind = SNAPSHOT_SOCKET,
		.tgid = w->tgid,
		.fd = fd,
		.unsent = BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_nxt),
		.unacknowledged = BPF_CORE_READ(tcp, packets_out),
	};
	/* Nagle's algorithm, MSG_MORE and TCP_CORK delay only a short last segment; longer data waits for a window. */
	if (!out.unsent || out.unsent >= BPF_CORE_READ(tcp, mss_cache))
		return 0;
	if (out.unacknowledged ? BPF_CORE_READ_BITFIELD_PROBED(tcp, nonagle) : BPF_CORE_READ(tcp, snd_wnd) < out.unsent)
		return 0;
	w->found++;
	if (w->found <= SOCKETS)
		bpf_seq_write(w->seq, &out, sizeof(out));
	return 0;
}

#endif
