package about

import "github.com/spf13/cobra"

// ExitCodes explains each exit code in a line.
const ExitCodes = `  0    done
  1    failed
  2    plan: there are changes
  64   wrong usage
  65   the manifest, or another file that was named, is wrong
  66   the manifest, the state file or another file that was named does not exist
  69   the VM's agent does not answer
  70   the CPI (cloud) reported an error
  73   the plan is out of date
  74   the new version does not work, and the previous one was put back (--on-failure)
  75   another run has the state locked, members of a fleet are busy, or others use the
       address ledger for too long
  76   this machine could not send its state to the store of the team
  77   a document in the store of the team is not trusted
  130  interrupted

"bootstrap explain CODE" says what to do after each of them.

With --json, the last line contains the exit code, too: "kind":"result" has
"exit_code". ssh ends with the exit code of the command on the VM; the help of status
and doctor explains theirs.`

// newExitCodes returns the help topic of the exit codes.
func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The meaning of the exit codes",
		Long:  ExitCodes,
	}
}
