/* Files are opened into the table of registered files; the reads name the slot without IOSQE_FIXED_FILE, or with it (`flag`).
 * Build: cc -O2 -o slot_without_flag slot_without_flag.c -luring     Run: ./slot_without_flag FILE [flag] */
#include <liburing.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; struct io_uring_sqe *s; static char b[4096]; long ok = 0, bad = 0;
    io_uring_queue_init(8, &r, 0); io_uring_register_files_sparse(&r, 256);
    for (int i = 0; i < 400; i++) {
        int slot = 100 + i % 100;
        s = io_uring_get_sqe(&r); io_uring_prep_openat_direct(s, AT_FDCWD, v[1], O_RDONLY, 0, slot); io_uring_submit(&r);
        io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q);
        s = io_uring_get_sqe(&r); io_uring_prep_read(s, slot, b, 4096, 0); if (c > 2) s->flags |= IOSQE_FIXED_FILE; io_uring_submit(&r);
        io_uring_wait_cqe(&r, &q); ok += q->res > 0; bad += q->res == -EBADF; io_uring_cqe_seen(&r, q);
    }
    printf("truth: %ld reads, %ld EBADF\n", ok, bad);
}
