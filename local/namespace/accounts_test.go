//go:build linux

package namespace

import (
	"context"
	"os"
	"testing"
)

// accounts adds, changes and removes users and groups in the way of jobs.
const accounts = `
PATH=/usr/sbin:/usr/bin:/sbin:/bin
for tool in useradd usermod groupadd gpasswd chpasswd userdel; do type $tool >/dev/null 2>&1 || { echo missing=$tool; exit; }; done
try() { name=$1; shift; if said=$("$@" 2>&1); then echo $name=done; else echo "$name=$?: $said"; fi; }
try group groupadd --system agroup
try user useradd -m -b /home -s /bin/bash -G bosh_sudoers,bosh_sshers auser
try crypted usermod -p '$6$salt$hash' auser
try member usermod -aG agroup auser
try chpasswd sh -c 'echo auser:a-password | chpasswd'
try passwd sh -c 'printf "another-word\nanother-word\n" | passwd auser'
try gpasswd gpasswd -a vcap agroup
try shell chsh -s /bin/sh auser
try expiry chage -M 99999 auser
try lock passwd -l auser
echo groups=$(id -Gn auser) home=$(stat -c %U /home/auser) shell=$(getent passwd auser | cut -d: -f7) shadow=$(grep -c '^auser:!' /etc/shadow)
try removed userdel $remove auser
try ungroup groupdel agroup
getent passwd auser >/dev/null || echo gone=yes
`

func wantAccounts(home string) map[string]string {
	want := map[string]string{"groups": "auser bosh_sudoers bosh_sshers agroup home=" + home + " shell=/bin/sh shadow=1", "gone": "yes"}
	for _, name := range []string{"group", "user", "crypted", "member", "chpasswd", "passwd", "gpasswd", "shell", "expiry", "lock", "removed", "ungroup"} {
		want[name] = "done"
	}
	return want
}

// Jobs can add users to a VM, as os-conf-release does.
func TestAccounts(t *testing.T) {
	t.Parallel()
	_, output := runInside(t, accounts) // userdel -r does not remove a home that belongs to root
	expect(t, output, wantAccounts("root"))
}

// In a VM with several users, the home of a new user belongs to that user.
func TestAccountsOfUsers(t *testing.T) {
	t.Parallel()
	users := needUsers(t)
	dir := folderOf(t)
	t.Cleanup(func() {
		if err := users.Remove(context.WithoutCancel(t.Context()), os.Args[0], dir); err != nil {
			t.Error(err)
		}
	})
	expect(t, users.run(t, dir, "remove=-r"+accounts), wantAccounts("auser"))
}
