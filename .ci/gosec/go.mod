module gosec

go 1.26

require (
	github.com/securego/gosec/v2 v2.22.10
	golang.org/x/tools v0.38.0
)

require (
	github.com/ccojocar/zxcvbn-go v1.0.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gookit/color v1.6.0 // indirect
	github.com/xo/terminfo v0.0.0-20220910002029-abceb7e1c41e // indirect
	golang.org/x/mod v0.29.0 // indirect
	golang.org/x/sync v0.17.0 // indirect
	golang.org/x/sys v0.37.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
