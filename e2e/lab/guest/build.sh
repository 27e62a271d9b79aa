#!/usr/bin/env bash
# Builds the guest of the lab into the folder $1: debian.qcow2, a Debian 12 cloud image (cloud kernel, cloud-init) that has neither
# squid nor a guest agent, and apt/, a flat repository with exactly what the image lacks to install both. So a cloud-config's
# `packages:` is really resolved, fetched and installed by the guest at boot, from this machine alone.
#
# $2 is the URL under which the guest will find apt/. Nothing else of the building machine gets into the image.
# Lines that begin with "==> " are the progress. The lab caches the result under a hash of this very file (guest.go).
set -euo pipefail
out=$1 apt_url=$2
mirror=${PROXYARD_DEBIAN_MIRROR:-}
work=$out/work root=$out/work/root
mkdir -p "$work" "$out/apt"

# What a cloud image has; cloud-init brings its own dependencies. python3-apt and friends stay out: smaller and faster to boot.
packages=linux-image-cloud-amd64,systemd-sysv,systemd-resolved,udev,dbus,cloud-init,netplan.io,iproute2,ca-certificates
packages+=,e2fsprogs,netbase,perl,adduser,locales
later="squid qemu-guest-agent"

echo "==> guest root file system and the packages it will install later (mmdebstrap)"
# The hook runs while apt still knows its sources: apt itself resolves what `$later` needs beyond what the image has.
# The Acquire lines carry an apt proxy of this machine into the build; the file they end up in is removed below.
apt-config dump | grep -iE '^Acquire::(https?|ftp)::proxy' > "$work/apt.conf" || true
mmdebstrap --quiet --variant=minbase --format=directory --aptopt="$work/apt.conf" --include="$packages" \
  --customize-hook='APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq --yes --download-only --no-install-recommends install '"$later"' >/dev/null' \
  --customize-hook='mv "$1"/var/cache/apt/archives/*.deb '"'$out/apt/'" \
  bookworm "$root" ${mirror:+"$mirror"}

echo "==> flat apt repository"
(cd "$out/apt" && apt-ftparchive packages . > Packages)

echo "==> guest configuration"
rm -rf "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/* "$root"/etc/apt/apt.conf.d/99mmdebstrap
echo "deb [trusted=yes] $apt_url ./" > "$root/etc/apt/sources.list"
# No apt source of cloud-init's own, no locale to generate, and only the seed as data source: the rest costs boot time.
printf 'apt:\n  preserve_sources_list: true\nlocale: C.UTF-8\n' > "$root/etc/cloud/cloud.cfg.d/91_lab.cfg"
echo 'datasource_list: [ NoCloud, None ]' > "$root/etc/cloud/cloud.cfg.d/90_datasource.cfg"
echo 'LABEL=root / ext4 defaults 0 1' > "$root/etc/fstab"
echo localhost > "$root/etc/hostname"
rm -f "$root/etc/resolv.conf" "$root/etc/machine-id" "$root"/etc/ssh/ssh_host_* "$root/var/log/"*.log
ln -s ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
: > "$root/etc/machine-id"
# Timers that would take the apt lock or the only CPU in the middle of a test.
for unit in apt-daily.timer apt-daily-upgrade.timer man-db.timer e2scrub_all.timer fstrim.timer; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

echo "==> disk image"
disk=$work/disk.raw boot=$work/boot.fat rootfs=$work/root.ext4
# MBR, a FAT partition for syslinux and the kernel, ext4 for the rest: made from plain files, without loop devices.
boot_start=2048 boot_sectors=204800 root_start=206848 total_mib=1600
rm -f "$disk" && truncate -s ${total_mib}M "$disk"
sfdisk --quiet "$disk" <<S
label: dos
start=$boot_start, size=$boot_sectors, type=c, bootable
start=$root_start, type=83
S
truncate -s $((boot_sectors * 512)) "$boot"
mkfs.vfat -n BOOT "$boot" > /dev/null
cat > "$work/syslinux.cfg" <<S
DEFAULT linux
PROMPT 0
SERIAL 0 115200
LABEL linux
  LINUX /vmlinuz
  INITRD /initrd
  APPEND root=LABEL=root ro console=tty0 console=ttyS0,115200 net.ifnames=0
S
mcopy -i "$boot" "$root"/boot/vmlinuz-* ::/vmlinuz
mcopy -i "$boot" "$root"/boot/initrd.img-* ::/initrd
mcopy -i "$boot" "$work/syslinux.cfg" ::/syslinux.cfg
syslinux --install "$boot"
dd if="$boot" of="$disk" bs=512 seek=$boot_start conv=notrunc status=none
truncate -s $((total_mib * 1024 * 1024 - root_start * 512)) "$rootfs"
mkfs.ext4 -q -F -L root -d "$root" "$rootfs"
dd if="$rootfs" of="$disk" bs=1M oflag=seek_bytes seek=$((root_start * 512)) conv=notrunc,sparse status=none
dd if=/usr/lib/SYSLINUX/mbr.bin of="$disk" bs=440 count=1 conv=notrunc status=none
qemu-img convert -O qcow2 -c "$disk" "$out/debian.qcow2"
rm -rf --one-file-system "$work"
