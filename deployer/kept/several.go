package kept

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// OfSeveral returns the folder for this machine's records of a deployment with several
// instances as a whole. It stays when the deployment is deleted. home is ~/.bosh, and
// record the folder of the deployment's record.
func OfSeveral(home, record string) Folder {
	if abs, err := filepath.Abs(record); err == nil {
		record = abs
	}
	sum := sha256.Sum256([]byte(record))
	return At(filepath.Join(home, "deployments", hex.EncodeToString(sum[:6])))
}
