# make test    everything this machine can run, then a table of what ran      (HAULOUT_TEST=full: all of it or fail)
# make test-long  the same with every kill, ten minutes of siege and a week in virtual time; see CONTRIBUTING.md
# make demo    a rolling maintenance and a package that is rolled back on an embedded cluster; no Kubernetes needed
# make check   format, lint, types, import contracts, and the quick ones of unit, property and contract tests: what one runs all day
# make records  ask the real API server the contract cases again, and write its answers into tests/contract/records
# make tools   the real control plane for tests, compiled once from pinned Go modules into a cache; KUBE=1.35: of that version
# make web     build the console's page from web/ into the package (needs Node)
# make pictures  the pictures of the console in docs/pictures, from fixed data
# make images  the container images, as an OCI layout in dist/images, without a container engine (docs/releasing.md)
# make docs    the documentation as a site in site/, with every link checked
# make release  every artifact of this version in dist/, from a clean tree (docs/releasing.md); REGISTRY=...: where its images will be
# make format  rewrite the sources in the project's format
# make lock    pin the dependencies again (needs uv)

PYTHON ?= $(shell sh tools/python.sh)
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test test-long check records tools web pictures images docs release format lock clean

test: $(STAMP)
ifneq ($(filter full long,$(HAULOUT_TEST)),)
	@$(VENV)/bin/python tools/build.py
endif
	@$(VENV)/bin/python -m tools.tiers

# The other versions of Kubernetes that are pinned in tools/go.
test-long:
	@$(PYTHON) tools/build.py --all
	@HAULOUT_TEST=long $(MAKE) --no-print-directory test

demo: $(STAMP)
	@$(VENV)/bin/haulout demo

check: $(STAMP)
	@$(VENV)/bin/python -m tools.tiers --quick style types imports unit property contract

records: $(STAMP)
	@$(PYTHON) tools/build.py
	@$(VENV)/bin/python -m tests.contract.refresh

tools:
	@HAULOUT_KUBE=$(KUBE) $(PYTHON) tools/build.py

web:
	@npm --prefix web ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@cd web && node build.mjs

pictures: $(STAMP)
	@$(VENV)/bin/python -m tools.pictures

images: $(STAMP)
	@$(VENV)/bin/python -m tools.images

docs: $(VENV)/.docs
	@$(VENV)/bin/python -m tools.site $(VENV)/docs/bin/mkdocs

release: $(STAMP)
	@$(VENV)/bin/python -m tools.release $(if $(REGISTRY),--registry $(REGISTRY))
	@$(VENV)/bin/python -m tools.images $(if $(REGISTRY),--repository $(REGISTRY)/haulout)
	@$(VENV)/bin/python -m tools.release.plugin

# Apart from what tests need: no test needs it.
$(VENV)/.docs: $(STAMP) requirements/docs.txt
	@$(PYTHON) -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

format: $(STAMP)
	@$(VENV)/bin/ruff format
	@$(VENV)/bin/ruff check --fix

lock:
	uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--extra fast --extra mail --extra otel --extra sns --extra socks --extra vsphere pyproject.toml -o requirements/run.txt
	uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--extra fast --extra mail --extra otel --extra sns --extra socks --extra vsphere pyproject.toml requirements/dev.in -o requirements/dev.txt
	uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		requirements/docs.in -o requirements/docs.txt
	uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		requirements/build.in -o requirements/build.txt

# Debian keeps ensurepip in a package of its own; as root we may simply install it.
$(VENV)/bin/python:
	@echo "creating a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { \
		rm -rf $(VENV); \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq -y python3-venv \
			&& $(PYTHON) -m venv $(VENV); } \
		|| { echo "make: $(PYTHON) -m venv failed; on Debian: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(STAMP): $(VENV)/bin/python requirements/dev.txt pyproject.toml
	@$(VENV)/bin/python tools/install.py
	@touch $@

clean:
	rm -rf $(VENV) test-logs site
