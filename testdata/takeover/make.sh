#!/bin/bash
# Makes the folder COMMIT with the program of that commit, which must read
# BOOTSTRAP_KILL_AT as the tests' program does:
#   testdata/takeover/make.sh PROGRAM COMMIT
set -eu
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
target=$here/$2
work=$(mktemp -d)
rm -rf "$target"
mkdir -p "$target" "$work/cache"
ssh-keygen -q -t ed25519 -N '' -C test -f "$work/ssh.key"

# lab NAME: an empty home, and the quickstart's manifest with ports of its own.
port=9500
lab() {
  lab=$work/$1
  port=$((port + 10))
  echo "$1: page at $port, agent at $((port + 1)) or $((port + 2)), SSH at $((port + 3))"
  mkdir -p "$lab/home/.bosh" "$lab/state"
  ln -s "$work/cache" "$lab/home/.bosh/cache"
  cp -R "$here/../quickstart/page-release" "$lab/page-release"
  cp "$here/../quickstart/bootstrap.yml" "$lab/bootstrap.yml"
  sed "s/port: 8787/port: $port/; s/127.0.0.1:6868/127.0.0.1:$((port + 1))/; s/1000-60000/0-60000/" "$here/../quickstart/manifest.yml" >"$lab/page.yml"
}
bootstrap() { (cd "$lab" && HOME=$lab/home "$program" "$@" --state state/page.json >>run.log 2>&1); }
run() { bootstrap "$@" || { cat "$lab/run.log"; exit 1; }; }
# killed POINT ARGUMENTS: a run that is killed at a point.
killed() {
  export BOOTSTRAP_KILL_AT=$1; shift
  status=0; bootstrap "$@" || status=$?
  unset BOOTSTRAP_KILL_AT
  [ $status -eq 137 ] || { cat "$lab/run.log"; echo "exit code $status of a run that was to be killed"; exit 1; }
}
visit() { curl -sf http://127.0.0.1:$port/ >/dev/null; }
edit() { sed -i "$1" "$lab/page.yml"; }
# keep: ends the VM, and copies what the deployment left on this machine.
keep() {
  local to=$target/$(basename "$lab")
  for pid in $(pgrep -f "$lab/" || true); do kill -KILL "$pid" 2>/dev/null || true; done
  rm -rf "$lab/home/.bosh/cache" "$lab/page-release" "$lab/run.log" "$lab/home/.bosh/local/lock"
  rm -rf "$lab"/home/.bosh/*/{install.lock,cpi.log,rendered-*,jobs/local_cpi/monit}
  find "$lab" -type f -print0 | xargs -0 perl -pi -e "s#\Q$lab\E#{DIR}#g if -T \$ARGV"
  find "$lab" -type l | while read -r link; do
    ln -sfn "$(readlink "$link" | sed "s#$lab#{DIR}#")" "$link"
  done
  mkdir -p "$to"
  if [ -d "$lab/home/.bosh/local" ]; then
    # No sparse files, names of people or times of this machine.
    tar -C "$lab/home/.bosh" --sort=name --owner=0 --group=0 --numeric-owner -cf - local | gzip -9n >"$to/local.tar.gz"
    rm -rf "$lab/home/.bosh/local"
  fi
  cp -R "$lab/." "$to"
  ! grep -rl "$work" "$to" || exit 1
}

lab created
run deploy page.yml; visit
keep

lab changed
run deploy page.yml
edit 's/Hello from bootstrap/Good day/'; run deploy page.yml; visit
edit 's/Good day/Good night/'
(cd "$lab" && HOME=$lab/home "$program" plan page.yml --state state/page.json --out plan.json >>run.log 2>&1) || [ $? -eq 2 ]
keep

lab stopped
run deploy page.yml; visit
run stop page.yml
keep

lab orphan
edit 's/^update:/&\n  snapshot: true/'
run deploy page.yml; visit
edit 's/Hello from bootstrap/Good day/'; run deploy page.yml
edit '/persistent_disk_pool/d'; run deploy page.yml
keep

lab kept-disk
run deploy page.yml; visit
run delete --yes --keep-disk page.yml
keep

lab registry
cp "$work/ssh.key" "$lab/"
cat >>"$lab/page.yml" <<M
    local_cpi:
      api_version: 1
      ssh:
        port: $((port + 3))
        user: vcap
        authorized_keys: ["$(cat "$work/ssh.key.pub")"]
  ssh_tunnel:
    host: 127.0.0.1
    port: $((port + 3))
    user: vcap
    private_key: ./ssh.key
  registry:
    host: 127.0.0.1
    port: 0
    username: registry
    password: registry-secret-of-a-test
M
run deploy page.yml; visit
keep

# Killed when the CPI has made the VM, and its reply is only in a file.
lab killed-create-vm
run deploy page.yml; visit
killed 'cpi create_vm after 1' deploy --recreate page.yml
keep

# Killed with its CPI before anything was made: nobody knows what became of it.
lab killed-create-disk
export BOOTSTRAP_KILL_CPI=1
killed 'cpi create_disk running 1' deploy page.yml
unset BOOTSTRAP_KILL_CPI
keep

lab killed-update
run deploy page.yml; visit
edit 's/Hello from bootstrap/Good day/'
killed 'agent apply before 1' deploy page.yml
keep

lab killed-delete
run deploy page.yml; visit
killed 'cpi delete_disk after 1' delete --yes page.yml
keep

# Killed when the new VM is recorded, and the old one is not deleted yet.
lab killed-swap
edit 's/^update:/&\n  vm_strategy: create-swap-delete/'
run deploy page.yml; visit
edit "s/static_ips: .127.0.0.1./static_ips: [127.0.0.2]/; s/127.0.0.1:$((port + 1))/127.0.0.1:$((port + 2))/"
killed 'cpi delete_vm before 1' deploy page.yml
keep

# The folder of the state is away while the CPI makes the disk.
lab rescued
export BOOTSTRAP_WAIT_AT='cpi create_disk before 1' BOOTSTRAP_WAIT_FILE=$lab/waits
bootstrap deploy page.yml & pid=$!
until [ -e "$lab/waits" ]; do kill -0 $pid; sleep 0.1; done
unset BOOTSTRAP_WAIT_AT BOOTSTRAP_WAIT_FILE
mv "$lab/state" "$lab/away"; : >"$lab/state"; rm "$lab/waits"
! wait $pid || exit 1
rm "$lab/state"; mv "$lab/away" "$lab/state"
keep
rm -rf "$work"
