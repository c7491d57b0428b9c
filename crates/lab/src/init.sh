#!/bin/busybox sh
# Process 1 in the lab's guest: mounts the host's files so that they cannot be modified, then starts iotrail.
# /lab.conf sets RELEASE, MODULES (their directory on the host; empty: shared separately, because the files are not the host's), BOOT (modules to load) and DRIVES (number of drives).
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
. /lab.conf

fail() {
    echo "iotrail lab: $*" >/dev/console
    sync
    poweroff -f
}

for module in $BOOT; do modprobe "$module" || fail "the module $module was not loaded"; done

options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "ro,$options,cache=loose" hostroot /host || fail "the host's files cannot be mounted"
mount -t tmpfs -o size=50% tmpfs /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir=/host,upperdir=/writes/upper,workdir=/writes/work overlay /root ||
    fail "cannot mount an overlay over the host's files"
# Directories that another root may lack.
[ -n "$MODULES" ] || for folder in proc sys dev run tmp bin sbin etc root mnt lib/modules; do mkdir -p "/root/$folder"; done
[ -e /root/bin/sh ] || { cp /bin/busybox /root/bin/busybox && chroot /root /bin/busybox --install -s /bin; }
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm /root/dev/mqueue /root/run
mount -t devpts -o ptmxmode=666 devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
mount -t mqueue mqueue /root/dev/mqueue
mount -t tmpfs tmpfs /root/run
# A kernel may lack some of these.
mount -t tracefs tracefs /root/sys/kernel/tracing
mount -t debugfs debugfs /root/sys/kernel/debug
mount -t securityfs securityfs /root/sys/kernel/security
mount -t bpf bpf /root/sys/fs/bpf
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
for name in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
    [ -e "/root/dev/${name%%:*}" ] || ln -s "${name#*:}" "/root/dev/${name%%:*}"
done
mkdir -p /root/run/iotrail-lab
mount -t 9p -o "rw,$options,cache=none" labout /root/run/iotrail-lab || fail "the results directory cannot be mounted"

# All modules, for programs in the guest and for the kernel, which runs this root's /sbin/modprobe.
mkdir -p "/root/lib/modules/$RELEASE"
for place in /root /; do
    if [ -n "$MODULES" ]; then
        mount --bind "/host$MODULES" "$place/lib/modules/$RELEASE" || fail "the kernel's modules are not in $MODULES"
    elif [ "$place" = /root ]; then
        mount -t 9p -o "ro,$options,cache=loose" labmodules "/root/lib/modules/$RELEASE" || fail "the kernel's modules cannot be mounted"
    else
        # Each share is mounted only once.
        mount --bind "/root/lib/modules/$RELEASE" "/lib/modules/$RELEASE"
    fi
done
# For programs that load modules if this machine has no tools for it, or if its tools (kmod) read a module list that this kernel's modules
# lack. Only the guest sees the links.
cp /bin/busybox /root/run/busybox
[ -e "/root/lib/modules/$RELEASE/modules.dep.bin" ] && has_list=y
for name in modprobe insmod rmmod lsmod; do
    [ -n "$has_list" ] && [ -e "/root/sbin/$name" ] || ln -sf /run/busybox "/root/sbin/$name"
done

ip link set lo up
hostname iotrail-lab
ulimit -l unlimited

# One drive after another, so that their numbers are in the requested order.
if [ "$DRIVES" -gt 0 ]; then
    echo 0 >/sys/bus/pci/drivers_autoprobe
    modprobe nvme || fail "the module nvme was not loaded"
    drive=0
    for device in /sys/bus/pci/devices/*; do
        [ "$(cat "$device/class")" = 0x010802 ] || continue
        echo "${device##*/}" >/sys/bus/pci/drivers/nvme/bind || fail "the driver did not bind the drive ${device##*/}"
        waited=0
        until [ -b "/dev/nvme${drive}n1" ]; do
            waited=$((waited + 1))
            [ "$waited" -lt 600 ] || fail "the drive nvme${drive}n1 did not appear"
            sleep 0.1
        done
        drive=$((drive + 1))
    done
    echo 1 >/sys/bus/pci/drivers_autoprobe
fi

chroot /root /run/iotrail-lab/bin/iotrail lab guest </dev/null >/dev/console 2>&1
fail "the process that runs the command ended with status $?"
