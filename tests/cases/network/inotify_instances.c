/* One inotify instance per directory, until fs.inotify.max_user_instances. Or one instance for all of them (`one`).
 * Build: cc -O2 -o inotify_instances inotify_instances.c     Run: ./inotify_instances [one] */
#include <stdio.h>
#include <sys/inotify.h>
int main(int c, char **v) {
    int watches = 0, failed = 0, one = -1;
    FILE *f = fopen("/proc/sys/fs/inotify/max_user_instances", "r"); int most = 128; if (f) fscanf(f, "%d", &most);
    for (int i = 0; i < most + 30; i++) {
        int fd = c > 1 && one >= 0 ? one : inotify_init1(IN_NONBLOCK);
        if (fd < 0) { failed++; continue; }
        one = fd; if (inotify_add_watch(fd, "/tmp", IN_CREATE) >= 0) watches++;
    }
    printf("truth: %d watches, %d failed\n", watches, failed); return failed > 0;
}
