"""Checked program in, checked program out: the normal form, and one file per maintenance algorithm."""

from upshot.rewrite.bf import bf
from upshot.rewrite.counting import counting, is_recursive
from upshot.rewrite.maintenance import MaintenanceProgram, MaintenanceRule, Stage, StateOf, maintenance
from upshot.rewrite.normal_form import auxiliaries, normal_form
from upshot.rewrite.print_maintenance import print_maintenance
from upshot.rewrite.print_production import print_production
from upshot.rewrite.production import ProductionProgram, ProductionRule, production

__all__ = [
    "MaintenanceProgram",
    "MaintenanceRule",
    "ProductionProgram",
    "ProductionRule",
    "Stage",
    "StateOf",
    "auxiliaries",
    "bf",
    "counting",
    "is_recursive",
    "maintenance",
    "normal_form",
    "print_maintenance",
    "print_production",
    "production",
]
