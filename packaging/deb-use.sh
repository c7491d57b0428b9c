# Uses the installed package on the system where it is installed (deb-test.sh, deb-test-guest.sh). Leaves the store kept.db in the home directory.
set -e
cd
iotrail --version
iotrail check >check || { cat check; exit 1; }
sed '/^$/q' check
iotrail bench --rw nop --count 1000 --store kept.db >bench || { cat bench; exit 1; }
grep '^throughput' bench
iotrail list --store kept.db >list || exit 1
tail -n 1 list
rm check bench list
