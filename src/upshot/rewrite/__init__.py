"""Checked program in, checked program out: the normal form, and one file per maintenance algorithm."""

from upshot.rewrite.normalize.normal_form import auxiliaries, normal_form
from upshot.rewrite.strategies.bf import bf
from upshot.rewrite.strategies.counting import counting, is_recursive
from upshot.rewrite.strategies.maintenance import MaintenanceProgram, MaintenanceRule, Stage, StateOf, maintenance
from upshot.rewrite.strategies.print_maintenance import print_maintenance
from upshot.rewrite.strategies.print_production import print_production
from upshot.rewrite.strategies.production import ProductionProgram, ProductionRule, production

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
