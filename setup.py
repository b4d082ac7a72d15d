"""What goes into the wheel; all else about the package stands in pyproject.toml.

The grammars and spaces at the top of the repository are shipped from where they stand, as `ablate/grammars` and
`ablate/spaces`: package directories, which pyproject.toml cannot name beside a search for packages.
"""

from setuptools import find_packages, setup

SHIPPED = {"ablate.grammars": "grammars", "ablate.spaces": "spaces"}

setup(
    packages=[*find_packages(include=["ablate", "ablate.*"]), *SHIPPED],
    package_dir=SHIPPED,
    package_data={"ablate": ["py.typed", "**/*.sql", "**/*.yaml"], **dict.fromkeys(SHIPPED, ["**/*.yaml"])},
)
