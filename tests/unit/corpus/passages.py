"""Whole paragraphs of the PDFs of the test data, as a person reads them on the rendered pages: from the first to
the last word, in their order in the file.
"""

from __future__ import annotations

SPANISH = [
    "Presentación del libro",
    # page 9: chapter's first page, justified text, two indented paragraphs
    "Este libro está dirigido a estudiantes de Formación Profesional que desean adquirir una comprensión sólida "
    "sobre bases de datos y su gestión. El objetivo principal es proporcionar una guía práctica y accesible, "
    "combinando teoría con ejemplos y ejercicios que faciliten el aprendizaje activo.",
    "A lo largo de los capítulos, se abordarán los conceptos fundamentales de las bases de datos, el diseño y la "
    "manipulación de datos, así como el uso de sistemas gestores como MySQL y PostgreSQL. Además, se incluyen "
    "contenidos específicos para los módulos de Formación Profesional, adaptados a los requisitos de los ciclos "
    "formativos.",
    "El enfoque del libro es progresivo: se parte de los conceptos básicos y se avanza hacia temas más complejos, "
    "permitiendo al lector construir sus conocimientos de manera estructurada. Se fomenta la participación activa "
    "mediante ejercicios prácticos y recomendaciones para el desarrollo de habilidades en la gestión y programación "
    "de bases de datos.",
    # page 22: di-seño, im-plementar, prin-cipios, ex-plícitos, eco-nómicas; list items
    "El cumplimiento de la legislación sobre protección de datos es esencial en el diseño y operación de sistemas de "
    "almacenamiento y bases de datos, especialmente cuando se gestionan datos personales o sensibles. Las "
    "organizaciones deben implementar políticas y tecnologías que garanticen la privacidad y la seguridad, "
    "adaptándose a las normativas vigentes en cada jurisdicción.",
    "3.5.1. Puntos críticos de la LOPD",
    "La Ley Orgánica de Protección de Datos (LOPD) establece una serie de principios y obligaciones clave para el "
    "tratamiento de datos personales en España. Los puntos más críticos de la LOPD son:",
    "Finalidad: Los datos deben ser recogidos para fines determinados, explícitos y legítimos, y no pueden ser "
    "tratados posteriormente de manera incompatible con dichos fines.",
    "Sanciones: El incumplimiento de la LOPD puede conllevar sanciones económicas y administrativas importantes.",
    # page 65: headings, a box, a paragraph of ten lines with code in it
    "5.9.12. Revisión periódica de consultas",
    "Revisa y ajusta las consultas conforme crece la base de datos y cambian los patrones de uso. El rendimiento "
    "puede variar con el tiempo y requerir nuevas optimizaciones.",
    "En este capítulo se han presentado los conceptos fundamentales para la realización de consultas en SQL. Se ha "
    "explicado la sintaxis básica de la sentencia SELECT, el uso de cláusulas para filtrar y ordenar resultados, y la "
    "aplicación de operadores lógicos y de comparación. Se abordaron las funciones de agregación y la agrupación de "
    "datos con GROUP BY y HAVING, así como la unión de consultas mediante UNION, INTERSECT y EXCEPT. Se detallaron "
    "los distintos tipos de composiciones (JOIN) para combinar información de varias tablas y el uso de subconsultas "
    "para construir consultas avanzadas. Finalmente, se ofrecieron recomendaciones para la optimización de "
    "consultas, con el objetivo de mejorar el rendimiento y la eficiencia en el manejo de bases de datos.",
]
# The last paragraph: from page 153 over the running heads to page 154.
SPANISH_END = (
    "En este capítulo se ha explorado el concepto de bases de datos NoSQL, sus características principales y los "
    "diferentes tipos existentes, como clave-valor, documento, columna y grafo. Se han detallado los elementos "
    "fundamentales que comparten estos sistemas, así como los sistemas gestores más representativos y las "
    "herramientas que facilitan su administración y operación. Finalmente, se ha presentado un caso práctico con "
    "MongoDB para ilustrar la flexibilidad y potencia de las bases de datos NoSQL en aplicaciones modernas. La "
    "elección de una base de datos NoSQL adecuada depende de los requisitos específicos de cada proyecto, destacando "
    "su utilidad en escenarios que demandan escalabilidad, disponibilidad y manejo eficiente de datos no "
    "estructurados."
)
SOLVERS = [
    "1 Introduction",
    # page 1: hyphens at line ends, ligatures
    "Partial differential equations (PDEs) are differential equations which contain a-priori unkown multivariable "
    "functions and their partial derivatives. They are used to model various physical phenomena, such as heat, fluid "
    "dynamics or quantum mechanics. There are several numerical methods to solve PDEs. A common one is the "
    "finite-difference method (FDM), which approaches the differential equation by discretizing the problem space "
    "and converting the PDE to a system of linear equations. The obtained linear system can be solved using an "
    "iterative procedure which updates the solution until convergence is reached.",
    # three paragraphs without space between them; the last ends at the right edge
    "The original paper proposes to use machine learning techniques in order to find high performing update rules "
    "instead of designing them by hand [1], while still guaranteeing convergence. In order to fulfill these "
    "requirements the learned solver is an adapted existing standard solver, from which the convergence property is "
    "inherited by enforcing that a fixed point of the original solver is a fixed point for the trained solver as "
    "well. We stress that the goal is not to find a new solver, but to optimize an existing one. To be precise the "
    "learned part operates with the residuals after applying the standard solver. This construction allows "
    "application to other existing linear iterative solvers of equivalent design.",
    "2.1 Poisson Equation",
    # over the foot of the page, its notes and the next running head
    "The Poisson equation is a second order linear partial differential equation (PDE). In order to guarantee the "
    "existence and uniqueness of a solution, appropriate boundary conditions needs to be prescribed [[2]]. In this "
    "paper only Dirichlet boundary conditions were considered. The Poisson problem hence reads:",
    # the notes at the foot
    "The authors have declared that no competing interests exists.",
    "Open peer review is available at https://github.com/reproducibility-challenge/iclr_2019/pull/136.",
    "Optimizer — We are using Adadelta as the optimizer of our model, because of its ability to adapt over time and "
    "its minimal computational overhead. The method requires no manual adjustment of a learning rate and is robust to "
    "various selection of hyperparameters. Adadelta adjusts the learning rate by slowing down learning around a local "
    "optima, when the accuracy changes by a small margin. Adadelta also uses the idea of momentum to accelerate "
    "progress along dimensions in which the gradient consistently point in the same direction. This idea is "
    "implemented by keeping track of the previous parameter update and applying an exponential decay with a decay "
    "factor of ρ = 0.9 ([5]).",
    "Table 1. Parameters used in the training process.",
    "4.2 Hyper Parameter Search",
    # page 7: the pictures there are in a font without Unicode map, their captions are not
    "Figure 1. Loss evolution for different learning rates",
    "Figure 2. Loss evolution for different number of layers K",
    "Figure 3. Error evolution w.r.t. solver iterations for different number of layers K",
    "6 Related Work",
    "Recently, there have been several works on applying deep learning to solve the Poisson equation. However, to the "
    "best of our knowledge, previous works used deep networks to directly generate the solution; they have no "
    "correctness guarantees and are not generalizable to arbitrary grid sizes and boundary conditions. This is the "
    "reason why our work was focused on reproducing the results of [1], and on empirically proving the "
    "generalization of their model to arbitrary shapes and grid sizes.",
    "7 Conclusion & Future work",
    "We could partially confirm the results reported in the original paper, not every result was reproducible either "
    "through lack of time or certainty in how these results were achieved or measured. The trained solver was able to "
    "generalize well to the presented different sizes, geometries and boundary values, while using less resources "
    "compared to the standard solver.",
    "References",
]
OCAML = [
    "This article provides a full report on the effort to reproduce the work described in the article “Parallel "
    "Functional Programming with Skeletons: the OCamlP3L experiment” [1], written in 1998. It presented OCamlP3l "
    "[2], a parallel programming system written in the OCaml programming language [3].",
    "The system described in [1] was a breakthrough in many respects: it showed that it was possible to implement "
    "parallel skeletons [4] a combinators in a functional programming language; it showed how this parallel "
    "programming style allowed to write a single source code that produced executables targeted for sequential "
    "execution, hence enabling usual debugging techniques, and executables for parallel execution; and it led to the "
    "introduction in OCaml of the ability to marshal functional closures, used later on by a wealth of different "
    "applications.",
    "1. recover the source code of the OCamlP3l system",
    "4. verify speedup might be challenging: many parameters may have changed in microprocessors and network.",
    "The authors have declared that no competing interests exist.",
    "The code contained in this directory seems to be version 1.0 [7] and is classified as follows by the sloccount "
    "utility:",
    "To our great surprise, and satisfaction, the code compiled with the modern OCaml 4.05 installed on our machines "
    "unchanged. The only notable difference is that the modern compiler produces several new warnings that "
    "correspond to better static analysis checks introduced over the past quarter of a century.",
    "3 Recovering the test suite and replicating speedup figures",
    "But we did not want to stop here: having found the original code, we could replicate the speed‐up results, using "
    "a new test suite. After all, according to the article we wrote over 22 years ago, the original test suite was "
    "just producing a computational load to keep the compute nodes busy enough to take advantage of the parallelism.",
    "4 Conclusion",
    "We have reported on our experience in reproducing work we have done ourselves on the OCamlP3l experiment over 22 "
    "years ago [1]. Contrary to our expectations, the most difficult part has been to recover the source code. For "
    "its presevation, we had relied on institutional repositories first, and freely available collaborative "
    "development platforms later, neither of which passed the test of time.",
    "As a byproduct of this work, we have also safely archived in Software Heritage, and described in HAL, the stable "
    "final release 2.3 of OCamlP3l [6].",
    "References",
]
WORD_PROCESSOR = [
    "Example document",
    "Beautiful is better than ugly.",
    "Special cases aren't special enough to break the rules.",
    "There should be one-- and preferably only one --obvious way to do it.",
    "Although never is often better than *right* now.",
    "Namespaces are one honking great idea -- let's do more of those!",
    "Capital Jakarta Berlin Vienna Paris Vatican City",
    # the notes at the foot
    "1 2021 estimate",
    "3 2020 estimate",
]
_BLIND = (
    "Hello, here is some text without a meaning. This text should show what a printed text will look like at this "
    "place. If you read this text, you will get no information. Really? Is there no information? Is there a difference "
    "between this text and some nonsense like “Huardest gefburn”? Kjift – not at all! A blind text like this gives you "
    "information about the selected font, how the letters are written and an impression of the look. This text should "
    "contain all letters of the alphabet and it should be written in of the original language. There is no need for "
    "special content, but the length of words should match the language."
)
FOUR_PAGES = [" ".join([_BLIND] * 23)]  # one paragraph over all four pages, page numbers between
TWO_COLUMNS = [
    "Two-Column Document with Lorem Ipsum",
    "This is a sample document with two columns filled with Lorem Ipsum text.",
    # an indented paragraph inside a column
    "Nam dui ligula, fringilla a, euismod sodales, sollicitudin vel, wisi. Morbi auctor lorem non justo. Nam lacus "
    "libero, pretium at, lobortis vitae, ultricies et, tellus. Donec aliquet, tortor sed accumsan bibendum, erat "
    "ligula aliquet magna, vitae ornare odio metus a mi. Morbi ac orci et nisl hendrerit mollis. Suspendisse ut "
    "massa. Cras nec ante. Pellentesque a nulla. Cum sociis natoque penatibus et magnis dis parturient montes, "
    "nascetur ridiculus mus. Aliquam tincidunt urna. Nulla ullamcorper vestibulum turpis. Pellentesque cursus "
    "luctus mauris.",
    # from the foot of the left column to the head of the right one
    "Nulla malesuada porttitor diam. Donec felis erat, congue non, volutpat at, tincidunt tristique, libero. "
    "Vivamus viverra fermentum felis. Donec nonummy pellentesque ante. Phasellus adipiscing semper elit. Proin "
    "fermentum massa ac quam. Sed diam turpis, molestie vitae, placerat a, molestie nec, leo. Maecenas lacinia. "
    "Nam ipsum ligula, eleifend at, accumsan nec, suscipit a, ipsum. Morbi blandit ligula feugiat magna. Nunc "
    "eleifend consequat lorem. Sed lacinia nulla vitae enim. Pellentesque tincidunt purus vel magna. Integer non "
    "enim. Praesent euismod nunc eu purus. Donec bibendum quam in tellus. Nullam cursus pulvinar lectus. Donec et "
    "mi. Nam vulputate metus eu enim. Vestibulum pellentesque felis eu massa.",
    # page 3
    "Table 1: EU Countries Information",
    "Austria 8.9 83,879 Vienna German",
    "Belgium 11.5 30,689 Brussels Dutch, French, German",
    "Czech Republic 10.7 78,866 Prague Czech",
    "Finland 5.5 338,424 Helsinki Finnish, Swedish",
]
