package cpi

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/removal"

	"bootstrap/cpi"
)

// stemcell is the record of a stemcell. If it has no image, its VMs only use this
// program.
type stemcell struct {
	CID             string         `json:"cid"`
	Image           string         `json:"image,omitempty"` // digest of the image
	CloudProperties map[string]any `json:"cloud_properties"`
	CreatedAt       time.Time      `json:"created_at"`

	Tags map[string]string `json:"tags,omitempty"` // API v3
}

func (c *call) createStemcell(ctx context.Context) (any, error) {
	var image string
	var props map[string]any
	var env struct {
		Tags map[string]string `json:"tags"`
	}
	into := []any{&image, &props}
	if c.req.APIVersion >= 3 {
		into = append(into, &env)
	}
	if err := c.args(into...); err != nil {
		return nil, err
	}
	info, err := os.Stat(image)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the stemcell's image: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("cannot read the stemcell's image: %s is not a file", image)
	}
	made := stemcell{CloudProperties: props, CreatedAt: time.Now().UTC(), Tags: env.Tags}
	if info.Size() == 0 {
		err = checkLight(props)
	} else if err = c.needContainers(ctx); err == nil {
		made.Image, err = c.root.addImage(ctx, image)
	}
	if err != nil {
		return nil, err
	}
	cid, dir, err := c.root.create(stemcells())
	if err != nil {
		return nil, err
	}
	made.CID = cid
	if err := c.root.save(stemcells(), cid, made); err != nil {
		_ = removal.Tree(dir) // the next call tries again
		return nil, err
	}
	return cid, nil
}

// checkLight refuses a stemcell without an image that is not for this CPI.
func checkLight(props map[string]any) error {
	if infrastructure, ok := props["infrastructure"]; ok && infrastructure != "local" {
		return fail(cpi.TypeCloudError, "cannot use a light stemcell for the infrastructure '%v': this CPI needs one for 'local', such as embedded:local-stemcell, or one for warden or docker with its image", infrastructure)
	}
	return refuseUnknown("the stemcell's cloud_properties", props, "infrastructure", "name", "version", "os_type", "os_distro", "architecture")
}

func (c *call) hasStemcell(context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	found, err := c.root.has(stemcells(), cid)
	if err != nil || !found {
		return false, err
	}
	var made stemcell
	if err := c.root.load(stemcells(), cid, &made); err != nil {
		return nil, err
	}
	// If the image is missing, the stemcell must be uploaded again.
	return made.Image == "" || isFolder(c.root.imageDir(made.Image)), nil
}

func (c *call) deleteStemcell(ctx context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	if err := c.root.load(stemcells(), cid, &stemcell{}); err != nil {
		return nil, err
	}
	if err := c.root.remove(ctx, stemcells(), cid); err != nil {
		return nil, err
	}
	return nil, c.root.sweepImages()
}

// refuseUnknown returns an error for properties that this CPI would ignore.
func refuseUnknown(where string, props map[string]any, keys ...string) error {
	var unknown []string
	for key := range props {
		if !slices.Contains(keys, key) {
			unknown = append(unknown, "'"+key+"'")
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	allowed := "none"
	if len(keys) > 0 {
		allowed = strings.Join(keys, ", ")
	}
	return fail(cpi.TypeCloudError, "cannot use %s in %s: this CPI knows %s", strings.Join(unknown, ", "), where, allowed)
}
