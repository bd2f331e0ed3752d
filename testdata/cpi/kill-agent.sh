# Kills the agent of the script's only VM for good; the jobs go on. The first process
# of a VM of namespaces would start it again, so that it is stopped.
root=$(cd "$HOME"/.bosh/local/vms/*/ && pwd)
for p in $(pgrep -f "plugin machine init .*$root"); do
  kill -STOP $p
done
for p in $(pgrep -f "plugin agent(-inside)? $root"); do
  kill -9 $p
done
