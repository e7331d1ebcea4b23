module haulout.dev/tools/vcsim

go 1.26.0

tool github.com/vmware/govmomi/vcsim

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/vmware/govmomi v0.18.0 // indirect
)
